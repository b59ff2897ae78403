// Process groups of torch.distributed over the link: what group.cpp gives to Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace squall {

void bind_groups(py::module& m);

} // namespace squall
