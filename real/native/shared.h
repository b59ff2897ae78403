// The bytes of large tensors, in memory that both sides of a message see.
//
// The sender writes them once, to a file in memory that has no name. Its number goes with the message to
// the coordinator, which opens it for itself; the receiver maps it, so that what it writes there
// stays its own. Tensors that are small, or not plain, go inside the message.
#pragma once

#include <torch/csrc/distributed/rpc/utils.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "link.h"

namespace squall {

// From this size on a tensor is worth the calls of the system that a file costs.
constexpr size_t kLarge = 1 << 20;
// Where a tensor may begin in a file: what vector instructions and c10's own allocator have.
constexpr size_t kAlignment = 64;

namespace shared_parts {

// A mapping for as long as a tensor of it is alive.
struct Mapping {
  Mapping(void* at, size_t size) : at(at), size(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    ::munmap(at, size);
  }
  void* at;
  size_t size;
};

inline bool is_large(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && tensor.device().is_cpu() &&
      !tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg() && tensor.has_storage() &&
      tensor.storage().nbytes() >= kLarge;
}

inline void write_at(int fd, const char* from, size_t size, size_t at) {
  while (size > 0) {
    const ssize_t put = ::pwrite(fd, from, size, static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      throw std::runtime_error("there is no memory left for the tensors of a message");
    }
    from += put;
    at += static_cast<size_t>(put);
    size -= static_cast<size_t>(put);
  }
}

} // namespace shared_parts

// A message as it crosses the network: what wireDeserialize reads, where its large tensors are, and the
// file that they are in; -1 if there are none.
struct Wire {
  std::string bytes;
  std::string places;
  int fd = -1;
};

inline Wire to_wire(const torch::distributed::rpc::Message& message) {
  using namespace torch::distributed::rpc;
  Wire wire;
  bool any = false;
  for (const auto& tensor : message.tensors()) {
    any = any || shared_parts::is_large(tensor);
  }
  if (!any) {
    wire.bytes = wireSerialize(message.payload(), message.tensors());
    return wire;
  }
  // As wireSerialize does: of a view that has less than half of its storage only the view.
  const auto sent = cloneSparseTensors(message.tensors());
  std::vector<at::Tensor> inside;
  Writer places;
  size_t at = 0;
  for (size_t number = 0; number < sent.size(); ++number) {
    const at::Tensor tensor = sent.get(number);
    if (!shared_parts::is_large(tensor)) {
      inside.push_back(tensor);
      continue;
    }
    if (wire.fd < 0) {
      wire.fd = ::memfd_create("squall", MFD_CLOEXEC);
      if (wire.fd < 0) {
        // No more files may be opened: all goes inside the message, then.
        wire.bytes = wireSerialize(message.payload(), message.tensors());
        return wire;
      }
    }
    const auto& storage = tensor.storage();
    try {
      shared_parts::write_at(
          wire.fd, static_cast<const char*>(storage.data()), storage.nbytes(), at);
    } catch (...) {
      ::close(wire.fd);
      throw;
    }
    places.put<uint32_t>(static_cast<uint32_t>(number)).put<uint64_t>(at);
    places.put<uint64_t>(storage.nbytes()).put<int64_t>(tensor.storage_offset());
    places.put<uint32_t>(static_cast<uint32_t>(tensor.dim()));
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      places.put<int64_t>(tensor.size(dim)).put<int64_t>(tensor.stride(dim));
    }
    at = (at + storage.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
    // Its type and whether it wants gradients; the rest is in `places`.
    inside.push_back(at::empty({0}, tensor.options()).set_requires_grad(tensor.requires_grad()));
  }
  wire.bytes = wireSerialize(message.payload(), inside);
  wire.places = std::move(places.bytes);
  return wire;
}

// `mapping`: the file of the large tensors; null if there are none.
inline c10::intrusive_ptr<torch::distributed::rpc::Message> from_wire(
    torch::distributed::rpc::MessageType type,
    int64_t id,
    const std::string& bytes,
    const std::string& places,
    std::shared_ptr<shared_parts::Mapping> mapping) {
  using namespace torch::distributed::rpc;
  auto [payload, tensors] = wireDeserialize(bytes.data(), bytes.size());
  Reader reader(places);
  while (!reader.at_end()) {
    const auto number = reader.get<uint32_t>();
    const auto at = reader.get<uint64_t>();
    const auto size = reader.get<uint64_t>();
    const auto offset = reader.get<int64_t>();
    std::vector<int64_t> sizes(reader.get<uint32_t>());
    std::vector<int64_t> strides(sizes.size());
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      sizes[dim] = reader.get<int64_t>();
      strides[dim] = reader.get<int64_t>();
    }
    auto* const kept = new std::shared_ptr<shared_parts::Mapping>(mapping);
    c10::DataPtr data(
        static_cast<char*>(mapping->at) + at,
        kept,
        [](void* kept) { delete static_cast<std::shared_ptr<shared_parts::Mapping>*>(kept); },
        c10::Device(c10::kCPU));
    c10::Storage storage(c10::Storage::use_byte_size_t(), size, std::move(data));
    const auto& stand_in = tensors.at(number);
    const bool wants_gradient = stand_in.requires_grad();
    auto tensor = at::empty({0}, stand_in.options());
    tensor.set_(std::move(storage), offset, sizes, strides);
    tensors.at(number) = tensor.set_requires_grad(wants_gradient);
  }
  return c10::make_intrusive<Message>(std::move(payload), std::move(tensors), type, id);
}

// Maps the file that the coordinator holds at `path`; null if there is none. What is written to the
// mapping is seen by nobody else.
inline std::shared_ptr<shared_parts::Mapping> map_shared(const std::string& path) {
  if (path.empty()) {
    return nullptr;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  if (fd < 0 || ::fstat(fd, &about) != 0) {
    throw std::runtime_error("cannot open the tensors of a message at " + path);
  }
  const auto size = static_cast<size_t>(about.st_size);
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) {
    throw std::runtime_error("cannot map the tensors of a message at " + path);
  }
  return std::make_shared<shared_parts::Mapping>(at, size);
}

} // namespace squall
