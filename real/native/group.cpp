// A backend of process groups (c10d::Backend) whose operations are done in Python.
//
// torch.distributed, its process groups, DistributedDataParallel and its reducer are those of the
// stock wheel; they call this backend in the place of ProcessGroupGloo. Every operation gives its
// tensors to a Python object (sim/stock/group_guest.py), which sends them through the link and returns
// a Work that is done later.
#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>

#include "digest.h"
#include "group.h"
#include "link.h"

namespace squall {

namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using Milliseconds = std::chrono::milliseconds;

// A Python object that may be forgotten by a thread without the interpreter's lock.
using Held = std::shared_ptr<py::object>;

Held hold(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            py::gil_scoped_acquire gil;
            delete held;
          }};
}

// What makes the Python half of a group: a function of the store, rank, size, and timeout in ms.
Held factory;

} // namespace

// An operation under way. `helper` is the Python half of its group. `until_waited`: it does not say that it
// is over before somebody has waited for it, as gloo's sends and receives (SendWork, RecvWork), whose time limit
// counts from there: `helper`, which is of this operation alone, is told that somebody waits. A profiler
// records it under `name`, with the shapes of `inputs`.
class GroupWork : public c10d::Work {
 public:
  GroupWork(py::object helper, Tensors outputs, bool until_waited, const std::string& name, const Tensors& inputs)
      : Work(-1, OpType::UNKNOWN, name.c_str(), inputs),
        helper_(hold(std::move(helper))),
        outputs_(std::move(outputs)),
        until_waited_(until_waited),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

  // Callbacks of the future run before whoever waits for the work goes on.
  void done() {
    future_->markCompleted(c10::IValue(outputs_));
    finish();
  }

  void fail(const std::string& text) {
    auto error = std::make_exception_ptr(std::runtime_error(text));
    future_->setError(error);
    finish(error);
  }

  void expire() {
    std::lock_guard<std::mutex> guard(mutex_);
    expired_ = true;
    cv_.notify_all();
  }

  void set_source(int rank) {
    source_ = rank;
  }

  bool isCompleted() override {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (completed_ && !until_waited_) {
        return true;
      }
    }
    {
      py::gil_scoped_acquire gil;
      helper_->attr("look")();
    }
    std::lock_guard<std::mutex> guard(mutex_);
    return completed_ && !until_waited_;
  }

  // `timeout` is one of virtual time.
  bool wait(Milliseconds timeout) override {
    const bool is_limited = limit_from_here(timeout);
    Link::about_to_wait();
    if (timeout == kNoTimeout || is_limited) {
      std::unique_lock<std::mutex> lock(mutex_);
      cv_.wait(lock, [this] { return completed_; });
    } else {
      wait_for(timeout);
    }
    std::lock_guard<std::mutex> guard(mutex_);
    if (!completed_) {
      throw std::runtime_error("Operation timed out!");
    }
    until_waited_ = false;
    if (exception_) {
      std::rethrow_exception(exception_);
    }
    return true;
  }

  int sourceRank() const override {
    return source_;
  }

  Tensors result() override {
    return outputs_;
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future_;
  }

 private:
  // Whether the operation itself ends by `timeout`, or by the limit of its group.
  bool limit_from_here(Milliseconds timeout) {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      if (completed_ || !until_waited_) {
        return false;
      }
    }
    py::gil_scoped_acquire gil;
    helper_->attr("waited")(timeout == kNoTimeout ? -1.0 : static_cast<double>(timeout.count()));
    return true;
  }

  void wait_for(Milliseconds timeout) {
    Held limit;
    {
      py::gil_scoped_acquire gil;
      const auto self = c10::intrusive_ptr<GroupWork>::unsafe_reclaim_from_nonowning(this);
      limit = hold(helper_->attr("limit")(static_cast<double>(timeout.count()) / 1000, self));
    }
    {
      std::unique_lock<std::mutex> lock(mutex_);
      cv_.wait(lock, [this] { return completed_ || expired_; });
    }
    py::gil_scoped_acquire gil;
    (*limit)();
  }

  Held helper_;
  Tensors outputs_;
  bool until_waited_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool expired_ = false;
  int source_ = -1;
};

// One process's member of a process group.
class Group : public c10d::Backend {
 public:
  struct GroupOptions : Options {
    explicit GroupOptions(Milliseconds timeout) : Options("gloo", timeout) {}
  };

  Group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout)
      : Backend(rank, size), options_(c10::make_intrusive<GroupOptions>(timeout)) {
    py::gil_scoped_acquire gil;
    run_ = hold((*factory)(store, rank, size, static_cast<double>(timeout.count())));
  }

  const std::string getBackendName() const override {
    return "gloo";
  }

  c10::intrusive_ptr<Options> options() {
    return options_;
  }

  c10::intrusive_ptr<Options> getBackendOptions() {
    return options_;
  }

  void setTimeout(Milliseconds timeout) {
    options_->timeout = timeout;
    tell("set_timeout", static_cast<double>(timeout.count()));
  }

  void shutdown() {
    tell("leave");
  }

  void abort() {
    tell("leave");
  }

  void setSequenceNumberForGroup() override {}

  uint64_t getSequenceNumberForGroup() override {
    py::gil_scoped_acquire gil;
    return run_->attr("sequence_number")().cast<uint64_t>();
  }

  using Done = c10::intrusive_ptr<c10d::Work>;

  Done broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    return run("broadcast", opts.timeout, tensors, opts.rootRank);
  }
  Done allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return run("all_reduce", opts.timeout, tensors, opts.reduceOp);
  }
  Done allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override {
    return run("all_reduce", opts.timeout, tensors, opts.reduceOp);
  }
  Done reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    return run("reduce", opts.timeout, tensors, opts.reduceOp, opts.rootRank);
  }
  Done allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override {
    return run("all_gather", opts.timeout, outputs, inputs);
  }
  Done _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override {
    return run("all_gather_into_tensor", opts.timeout, Tensors{output}, Tensors{input});
  }
  // Of the next two, the lists are by member first.
  Done allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override {
    return run("all_gather_coalesced", opts.timeout, outputs, inputs);
  }
  Done allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
    return run("all_gather_into_tensor", opts.timeout, outputs, inputs);
  }
  Done gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override {
    return run("gather", opts.timeout, outputs, inputs, opts.rootRank);
  }
  Done scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override {
    return run("scatter", opts.timeout, outputs, inputs, opts.rootRank);
  }
  Done reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override {
    return run("reduce_scatter", opts.timeout, outputs, inputs, opts.reduceOp);
  }
  Done _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override {
    return run("reduce_scatter_tensor", opts.timeout, Tensors{output}, Tensors{input}, opts.reduceOp);
  }
  Done reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
    return run("reduce_scatter_tensor", opts.timeout, outputs, inputs, opts.reduceOp);
  }
  Done alltoall_base(
      at::Tensor& output,
      at::Tensor& input,
      std::vector<int64_t>& output_sizes,
      std::vector<int64_t>& input_sizes,
      const c10d::AllToAllOptions& opts) {
    return run("all_to_all_single", opts.timeout, output, input, output_sizes, input_sizes);
  }
  Done alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override {
    return run("all_to_all", opts.timeout, outputs, inputs);
  }
  Done barrier(const c10d::BarrierOptions& opts) override {
    return run("barrier", opts.timeout);
  }
  Done send(Tensors& tensors, int dst, int tag) override {
    return run("send", kUnset, tensors, dst, tag);
  }
  Done recv(Tensors& tensors, int src, int tag) override {
    return run("recv", kUnset, tensors, src, tag);
  }
  Done recvAnysource(Tensors& tensors, int tag) override {
    return run("recv", kUnset, tensors, -1, tag);
  }
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override {
    tell("monitored_barrier", static_cast<double>(opts.timeout.count()), wait_all_ranks);
  }

 private:
  static constexpr Milliseconds kUnset{-1};

  // The Python half does `what`; a timeout that is negative is the group's.
  template <typename... Args>
  Done run(const char* what, Milliseconds timeout, const Args&... args) {
    py::gil_scoped_acquire gil;
    return run_->attr("run")(what, static_cast<double>(timeout.count()), args...).template cast<Done>();
  }

  template <typename... Args>
  void tell(const char* what, Args... args) {
    py::gil_scoped_acquire gil;
    run_->attr(what)(args...);
  }

  c10::intrusive_ptr<GroupOptions> options_;
  Held run_;
};

void bind_groups(py::module& m) {
  py::module::import("torch._C._distributed_c10d");
  m.def("digest", [](uintptr_t address, size_t size) {
    return digest(reinterpret_cast<const char*>(address), size);
  });
  py::class_<GroupWork, c10d::Work, c10::intrusive_ptr<GroupWork>>(m, "GroupWork")
      .def(py::init([](py::object helper, Tensors outputs, bool until_waited, std::string name, Tensors inputs) {
        return c10::make_intrusive<GroupWork>(
            std::move(helper), std::move(outputs), until_waited, name, inputs);
      }))
      .def("done", &GroupWork::done, py::call_guard<py::gil_scoped_release>())
      .def("fail", &GroupWork::fail, py::call_guard<py::gil_scoped_release>())
      .def("expire", &GroupWork::expire, py::call_guard<py::gil_scoped_release>())
      .def("set_source", &GroupWork::set_source);
  py::class_<Group, c10d::Backend, c10::intrusive_ptr<Group>>(m, "Group")
      .def(
          py::init([](const c10::intrusive_ptr<c10d::Store>& store,
                      int rank,
                      int size,
                      Milliseconds timeout,
                      bool enable_reconfigure) {
            TORCH_CHECK_NOT_IMPLEMENTED(
                !enable_reconfigure, "a process group that is reconfigured is not simulated");
            return c10::make_intrusive<Group>(store, rank, size, timeout);
          }),
          py::arg("store"),
          py::arg("rank"),
          py::arg("size"),
          py::arg("timeout") = Milliseconds(30 * 60 * 1000),
          py::arg("enable_reconfigure") = false) // from torch 2.15 on
      .def_property_readonly("options", &Group::options)
      .def("_set_default_timeout", &Group::setTimeout)
      .def_static("set_factory", [](py::object function) { factory = hold(std::move(function)); });
}

} // namespace squall
