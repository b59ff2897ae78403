// An RpcAgent of PyTorch's own kind whose network is a coordinator in another process.
//
// The engine, the RRef context and the request callback are those of the stock wheel. What they
// send goes to the coordinator as bytes, and what others sent comes from it: it decides when, and
// whether. Behaviour that a caller can see follows torch/csrc/distributed/rpc/tensorpipe_agent.cpp.
#include <torch/csrc/distributed/autograd/context/context.h>
#include <torch/csrc/distributed/rpc/message.h>
#include <torch/csrc/distributed/rpc/request_callback_impl.h>
#include <torch/csrc/distributed/rpc/rpc_agent.h>
#include <torch/csrc/distributed/rpc/utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>

#include <atomic>

#include "about.h"
#include "group.h"
#include "link.h"
#include "retries.h"
#include "shared.h"

namespace squall {

using namespace torch::distributed::rpc;

namespace {

uint64_t size_bytes(const Message& message) {
  uint64_t size = message.payload().size();
  for (const auto& tensor : message.tensors()) {
    size += tensor.layout() == c10::kStrided ? tensor.nbytes() : 0;
  }
  return size;
}

} // namespace

class Agent : public RpcAgent {
 public:
  Agent(
      std::shared_ptr<Link> link,
      const std::string& name,
      int64_t rank,
      const std::map<int64_t, std::string>& names,
      double timeout_s,
      size_t threads,
      bool is_static_group)
      : RpcAgent(
            WorkerInfo(name, rank),
            std::make_unique<RequestCallbackImpl>(),
            std::chrono::milliseconds(static_cast<int64_t>(timeout_s * 1000))),
        link_(std::move(link)),
        threads_(threads),
        is_static_group_(is_static_group) {
    for (const auto& [id, other] : names) {
      infos_.emplace(id, WorkerInfo(other, id));
    }
    link_->set_handlers(threads);
  }

  ~Agent() override {
    if (rpcAgentRunning_.load()) {
      shutdown();
    }
  }

  c10::intrusive_ptr<JitFuture> send(
      const WorkerInfo& to,
      c10::intrusive_ptr<Message> message,
      const float rpcTimeoutSeconds,
      const DeviceMap& /*deviceMap*/) override {
    TORCH_CHECK(
        message->isRequest(), "an agent is asked to send requests only, not type ", message->type());
    if (!rpcAgentRunning_.load()) {
      auto text = c10::str(
          "Node ",
          RpcAgent::getWorkerInfo().id_,
          "tried to send() a message of type ",
          message->type(),
          " but RPC is no longer running on this node.");
      throw std::runtime_error(text);
    }
    const auto& there = getWorkerInfo(to.name_);
    const double timeout_s = rpcTimeoutSeconds == kUnsetRpcTimeout
        ? static_cast<double>(getRpcTimeout().count()) / 1000
        : static_cast<double>(rpcTimeoutSeconds);
    auto future = c10::make_intrusive<JitFuture>(at::AnyClassType::get());
    int64_t id = 0;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      id = next_id_++;
      pending_[id] = future;
      ++calls_;
    }
    message->setId(id);
    const auto failure = fails(*message);
    retries_.sent(message.get(), link_->now());
    const auto wire = to_wire(*message);
    Writer said;
    said.put<int16_t>(there.id_).put<uint16_t>(message->type()).put<int64_t>(id);
    said.put<double>(timeout_s).put<uint64_t>(size_bytes(*message)).put<int32_t>(wire.fd);
    said.put_bytes(about(*message)).put_bytes(wire.places).put_bytes(wire.bytes);
    link_->say_with('Q', said.bytes, wire.fd);
    if (!failure.empty()) {  // The coordinator finds the same, and tells it to nobody any more.
      {
        std::lock_guard<std::mutex> guard(mutex_);
        pending_.erase(id);
      }
      end(future, [&] { future->setError(std::make_exception_ptr(std::runtime_error(failure))); });
    }
    return future;
  }

  // As FaultyTensorPipeAgent: of each request of these types so many sends fail, before `send` returns. To be
  // said before the agent starts.
  void fail_sends(int times, std::set<int> types) {
    failing_times_ = times;
    failing_types_ = std::move(types);
  }

  const WorkerInfo& getWorkerInfo(const std::string& workerName) const override {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto& [id, info] : infos_) {
      if (info.name_ == workerName) {
        return info;
      }
    }
    unknown("name", workerName);
  }

  const WorkerInfo& getWorkerInfo(worker_id_t id) const override {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = infos_.find(id);
    if (found == infos_.end()) {
      unknown("id", id);
    }
    return found->second;
  }

  const WorkerInfo& getOwnInfo() const {
    return RpcAgent::getWorkerInfo();
  }

  std::vector<WorkerInfo> getWorkerInfos() const override {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<WorkerInfo> infos;
    for (const auto& [id, info] : infos_) {
      infos.push_back(info);
    }
    return infos;
  }

  // Whether nobody joins or leaves while it stands.
  bool is_static_group() const {
    return is_static_group_;
  }

  // Somebody has joined or left a group that is not static.
  void update_membership(const WorkerInfo& info, bool is_join) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (is_join) {
      infos_.emplace(info.id_, info);
    } else {
      infos_.erase(info.id_);
    }
  }

  void join(bool shutdown, float timeout) override {
    link_->ask('J', Writer().put<char>(shutdown).put<double>(timeout).bytes);
  }

  void sync() override {
    link_->ask('B', "");
  }

  void startImpl() override {
    link_->on_command = [this](char kind, Reader& reader) { obey(kind, reader); };
    link_->on_quiet = [this] { return retries_.look(*this, *link_); };
    link_->active = [this] {
      std::lock_guard<std::mutex> guard(mutex_);
      return std::pair<int, int>{calls_, requests_};
    };
    link_->say('I', "");
  }

  void shutdownImpl() override {
    retries_.over();
    link_->say('O', "");
    std::map<int64_t, c10::intrusive_ptr<JitFuture>> left;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      left.swap(pending_);
    }
    for (auto& [id, future] : left) {
      end(future, [&] {
        future->setError(std::make_exception_ptr(
            std::runtime_error("RPC was shut down on this worker before an answer came")));
      });
    }
    // As TensorPipe's: a function that still runs here keeps its worker, one that has returned a
    // future does not.
    link_->wait_for_handlers();
  }

  std::unordered_map<std::string, std::string> getMetrics() override {
    std::lock_guard<std::mutex> guard(mutex_);
    std::unordered_map<std::string, std::string> metrics{
        {"agent.thread_pool_size", std::to_string(threads_)},
        {"agent.client_active_calls", std::to_string(calls_)},
        {"agent.server_active_calls", std::to_string(requests_)}};
    if (isGILProfilingEnabled()) {
      metrics["agent.gil_average_wait_time_us"] = "0";  // of virtual time
    }
    return metrics;
  }

 private:
  template <typename T>
  [[noreturn]] void unknown(const char* what, const T& value) const {
    const auto& own = RpcAgent::getWorkerInfo();
    TORCH_CHECK(
        false, "name:", own.name_, ",rank:", own.id_, " could not find destination ", what, " ", value);
  }

  // Empty: it does not.
  std::string fails(const Message& message) {
    if (failing_types_.count(message.type()) == 0) {
      return "";
    }
    std::lock_guard<std::mutex> guard(mutex_);
    int& count = failures_[std::string(message.payload().begin(), message.payload().end())];
    if (count >= failing_times_) {
      return "";
    }
    return makeRPCError(
        c10::str("Send attempt ", ++count, " failed intentionally for a message of type ", message.type()),
        RPCErrorType::INTENTIONAL_FAILURE);
  }

  void addGilWaitTime(const std::chrono::microseconds /*gilWaitTime*/) override {}

  void obey(char kind, Reader& reader) {
    if (kind == 'T') {
      retries_.fire(*this, *link_);
      return;
    }
    const auto from = kind == 'Q' ? reader.get<int16_t>() : static_cast<int16_t>(-1);
    const auto type = kind == 'F' ? 0 : reader.get<uint16_t>();
    const auto id = reader.get<int64_t>();
    auto bytes = reader.get_bytes();
    std::string places;
    std::shared_ptr<shared_parts::Mapping> mapping;
    if (kind != 'F') {
      places = reader.get_bytes();
      mapping = map_shared(reader.get_bytes());
    }
    if (kind == 'Q') {
      {
        std::lock_guard<std::mutex> guard(mutex_);
        ++requests_;
      }
      const bool leaves_traces = type == MessageType::RUN_WITH_PROFILING_REQ;
      link_->handle([this, from, type, id, bytes = std::move(bytes), places = std::move(places), mapping = std::move(mapping)]() mutable {
        request(from, static_cast<MessageType>(type), id, bytes, places, std::move(mapping));
      }, leaves_traces);
      return;
    }
    c10::intrusive_ptr<JitFuture> future;
    {
      std::lock_guard<std::mutex> guard(mutex_);
      const auto found = pending_.find(id);
      if (found == pending_.end()) {
        return;
      }
      future = std::move(found->second);
      pending_.erase(found);
    }
    link_->handle([this, kind, type, id, future, bytes = std::move(bytes), places = std::move(places), mapping = std::move(mapping)]() mutable {
      end(future, [&] {
        if (kind == 'F') {
          future->setError(std::make_exception_ptr(std::runtime_error(bytes)));
          return;
        }
        auto message = from_wire(static_cast<MessageType>(type), id, bytes, places, std::move(mapping));
        if (message->type() == MessageType::EXCEPTION) {
          const std::string text(message->payload().begin(), message->payload().end());
          future->setError(std::make_exception_ptr(std::runtime_error(text)));
        } else {
          auto storages = message->getStorages();
          future->markCompleted(std::move(message), std::move(storages));
        }
      });
      future.reset();
    });
  }

  // A call counts as active until the callbacks of its future have run: they may call again. What
  // a callback throws leaves it counted, as in tensorpipe_agent.cpp (markFutureWithError).
  template <typename F>
  void end(const c10::intrusive_ptr<JitFuture>& /*future*/, F complete) {
    complete();
    std::lock_guard<std::mutex> guard(mutex_);
    --calls_;
  }

  void request(int16_t from, MessageType type, int64_t id, const std::string& bytes, const std::string& places, std::shared_ptr<shared_parts::Mapping> mapping) {
    c10::intrusive_ptr<JitFuture> response;
    try {
      auto message = from_wire(type, id, bytes, places, std::move(mapping));
      response = (*cb_)(*message, {});
    } catch (const std::exception&) {
      response = c10::make_intrusive<JitFuture>(at::AnyClassType::get());
      response->setError(std::current_exception());
    }
    // A pass that fails may be over before this thread comes to ask: the reply comes after what it has sent all the same.
    const auto asking = std::make_shared<std::atomic<bool>>(type == MessageType::BACKWARD_AUTOGRAD_REQ);
    response->addCallback([this, from, id, asking](JitFuture& future) {
      const auto message = future.hasError()
          ? createExceptionResponse(future.tryRetrieveErrorMessage(), id)
          : future.value().toCustomClass<Message>();
      const auto wire = to_wire(*message);
      Writer said;
      said.put<int16_t>(from).put<uint16_t>(message->type()).put<int64_t>(id);
      said.put<double>(0.0).put<uint64_t>(size_bytes(*message)).put<int32_t>(wire.fd);
      said.put_bytes(about(*message)).put_bytes(wire.places).put_bytes(wire.bytes);
      link_->say_with('R', said.bytes, wire.fd, future.hasError() && *asking);
      std::lock_guard<std::mutex> guard(mutex_);
      --requests_;
    });
    *asking = false;
  }

  std::shared_ptr<Link> link_;
  const size_t threads_;
  const bool is_static_group_;
  mutable std::mutex mutex_;
  // Nodes of a map stay where they are: others keep references to what is in them.
  std::map<int64_t, WorkerInfo> infos_;
  int64_t next_id_ = 0;
  std::map<int64_t, c10::intrusive_ptr<JitFuture>> pending_;
  int calls_ = 0;
  int requests_ = 0;
  int failing_times_ = 0;
  std::set<int> failing_types_;
  std::map<std::string, int> failures_;
  Retries retries_;
};

namespace {

void call_python(Link& link, py::object function) {
  auto held = std::make_shared<py::object>(std::move(function));
  link.on_call = [held](const std::string& bytes) -> std::string {
    py::gil_scoped_acquire gil;
    return (*held)(py::bytes(bytes)).cast<std::string>();
  };
}

py::bytes ask(Link& link, char kind, const std::string& what) {
  std::string answer;
  {
    py::gil_scoped_release release;
    answer = link.ask(kind, what);
  }
  return py::bytes(answer);
}

int64_t ask_then(Link& link, char kind, const std::string& what, py::object function) {
  auto held = std::make_shared<py::object>(std::move(function));
  return link.ask_then(kind, what, [held](const std::string& answer) {
    py::gil_scoped_acquire gil;
    auto function = std::move(*held);  // so that it ends with the interpreter's lock
    function(py::bytes(answer));
  });
}

} // namespace

} // namespace squall

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace squall;
  py::module::import("torch._C._distributed_rpc");
  m.def("hook_context", []() -> int64_t {
    const auto context =
        torch::distributed::autograd::ThreadLocalDistAutogradContext::getContextPtr();
    return context == nullptr ? -1 : context->contextId();
  });
  bind_groups(m);
  py::class_<Link, std::shared_ptr<Link>>(m, "Link")
      .def(py::init<int>())
      .def("start", &Link::start)
      .def("now", &Link::now)
      .def("say", [](Link& link, char kind, const std::string& what) { link.say(kind, what); })
      .def("ask", &ask)
      .def("begin", [](Link& link, char kind, const std::string& what) { return link.begin(kind, what); })
      .def("end", [](Link& link, int64_t question) { link.end(question); }, py::call_guard<py::gil_scoped_release>())
      .def("ask_then", &ask_then)
      .def("tell", [](Link& link, char kind, const py::bytes& what) { link.tell(kind, what); })
      .def("wake", &Link::wake)
      .def("take_turn", &Link::take_turn, py::call_guard<py::gil_scoped_release>())
      .def("on_call", &call_python)
      .def_static("set_lane", &Link::set_lane);
  py::class_<Agent, RpcAgent, std::shared_ptr<Agent>>(m, "Agent", py::dynamic_attr())
      .def(py::init<
           std::shared_ptr<Link>,
           std::string,
           int64_t,
           std::map<int64_t, std::string>,
           double,
           size_t,
           bool>())
      .def("fail_sends", &Agent::fail_sends)
      .def_property_readonly("is_static_group", &Agent::is_static_group)
      .def("_update_group_membership", [](Agent& agent, const WorkerInfo& info, const py::object&, const py::object&, bool is_join) { agent.update_membership(info, is_join); })
      .def("join", &Agent::join, py::call_guard<py::gil_scoped_release>(), py::arg("shutdown") = false, py::arg("timeout") = 0)
      .def("shutdown", &Agent::shutdown, py::call_guard<py::gil_scoped_release>())
      .def("get_worker_info", &Agent::getOwnInfo, py::call_guard<py::gil_scoped_release>())
      .def("get_worker_info", [](const Agent& agent, const std::string& name) { return agent.getWorkerInfo(name); })
      .def("get_worker_info", [](const Agent& agent, worker_id_t id) { return agent.getWorkerInfo(id); })
      .def("get_worker_infos", &Agent::getWorkerInfos)
      .def("get_metrics", &Agent::getMetrics);
}
