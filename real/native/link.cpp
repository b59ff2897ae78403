#include "link.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace squall {

namespace {

constexpr int kFirstHandler = 1;
constexpr int kFirstContinuation = 500;
constexpr int kCaller = 900;
constexpr int kFirstUnnamed = 1000;
// How long to wait between two looks at the threads: at first, when somebody was about to wait, and at most.
constexpr long kFirstPauseNs = 100'000;
constexpr long kLeastPauseNs = 10'000;
constexpr long kMostPauseNs = 1'000'000;
// How often to let the others go on instead, where all threads share a processor: as a rule they
// are blocked when this one is next.
constexpr int kYields = 4;

std::atomic<int> unnamed{kFirstUnnamed};
// The one of this process.
std::atomic<Link*> started{nullptr};
thread_local int lane_of_thread = -1;

[[noreturn]] void leave() {
  ::_exit(0);
}

bool read_all(int fd, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd, to, size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const char* from, size_t size) {
  while (size > 0) {
    const ssize_t put = ::send(fd, from, size, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      return false;
    }
    from += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

} // namespace

const char* Reader::take(size_t size) {
  if (static_cast<size_t>(end_ - at_) < size) {
    throw std::runtime_error("a command of the coordinator is too short");
  }
  const char* here = at_;
  at_ += size;
  return here;
}

Lane::Lane(int number, std::function<void()> done) : done_(std::move(done)) {
  std::thread([this, number] { loop(number); }).detach();
}

void Lane::run(std::function<void()> work) {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    busy_ = true;
    work_.push_back(std::move(work));
  }
  wake_.notify_one();
}

bool Lane::busy() {
  std::lock_guard<std::mutex> guard(mutex_);
  return busy_;
}

void Lane::loop(int number) {
  lane_of_thread = number;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (work_.empty()) {
      Link::about_to_wait();
    }
    wake_.wait(lock, [this] { return !work_.empty(); });
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    try {
      work();
    } catch (const std::exception& error) {  // as c10::ThreadPool has it
      std::fprintf(stderr, "Exception in thread pool task: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "Exception in thread pool task: unknown\n");
    }
    work = nullptr;
    lock.lock();
    if (work_.empty()) {
      busy_ = false;
      lock.unlock();
      done_();
      lock.lock();
    }
  }
}

Link::Link(int fd) : fd_(fd) {}

void Link::set_lane(int lane) {
  lane_of_thread = lane;
}

void Link::start(int processor) {
  if (processor >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    alone_ = ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  started = this;
  caller_ = std::make_unique<Lane>(kCaller, [] {});
  std::thread([this] { serve(); }).detach();
}

void Link::say(char kind, const std::string& what) {
  say_with(kind, what, -1);
}

void Link::say_with(char kind, const std::string& what, int fd, bool at_the_end) {
  if (lane_of_thread < 0) {
    lane_of_thread = unnamed++;
  }
  std::lock_guard<std::mutex> guard(mutex_);
  if (fd >= 0) {
    files_.push_back(fd);
  }
  const bool handles = lane_of_thread < kFirstContinuation;
  said_.push_back({lane_of_thread, at_the_end && handles, count_++, kind, what});
}

int64_t Link::begin(char kind, const std::string& what) {
  int64_t question = 0;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    question = questions_++;
    asked_[question];
  }
  say('A', Writer().put<int64_t>(question).put<char>(kind).put_bytes(what).bytes);
  return question;
}

std::string Link::end(int64_t question) {
  about_to_wait();
  std::unique_lock<std::mutex> lock(mutex_);
  answered_.wait(lock, [&] { return asked_.at(question).there; });
  auto what = std::move(asked_.at(question).what);
  asked_.erase(question);
  return what;
}

std::string Link::ask(char kind, const std::string& what) {
  return end(begin(kind, what));
}

int64_t Link::ask_then(
    char kind, const std::string& what, std::function<void(const std::string&)> then) {
  int64_t question = 0;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    question = questions_++;
    asked_[question].then = std::move(then);
  }
  say('A', Writer().put<int64_t>(question).put<char>(kind).put_bytes(what).bytes);
  return question;
}

void Link::tell(char kind, const std::string& what) {
  say('A', Writer().put<int64_t>(-1).put<char>(kind).put_bytes(what).bytes);
}

void Link::continue_with(std::function<void()> work) {
  for (auto& lane : continuations_) {
    if (!lane->busy()) {
      lane->run(std::move(work));
      return;
    }
  }
  const int number = kFirstContinuation + static_cast<int>(continuations_.size());
  continuations_.push_back(std::make_unique<Lane>(number, [] {}));
  continuations_.back()->run(std::move(work));
}

void Link::wake(int64_t question) {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = asked_.find(question);
    if (found == asked_.end() || found->second.there) {
      return;
    }
    if (found->second.then) {
      asked_.erase(found);
    } else {
      found->second.there = true;
      answered_.notify_all();
    }
  }
  say('W', Writer().put<int64_t>(question).bytes);
}

void Link::take_turn(bool always) {
  std::unique_lock<std::mutex> lock(mutex_);
  never_ahead_ = never_ahead_ || always;
  ++awaiting_turn_;
  turn_.wait(lock, [this] { return !ahead_; });
  --awaiting_turn_;
}

bool Link::wants_turn() {
  std::lock_guard<std::mutex> guard(mutex_);
  return ahead_ && awaiting_turn_ > 0;
}

void Link::await_turn() {
  const uint32_t nothing = 0;
  std::string command;
  if (!write_all(fd_, reinterpret_cast<const char*>(&nothing), sizeof nothing) || !read_command(command)) {
    leave();
  }
  std::lock_guard<std::mutex> guard(mutex_);
  ahead_ = false;
  turn_.notify_all();
}

double Link::now() {
  std::lock_guard<std::mutex> guard(mutex_);
  return now_;
}

void Link::set_handlers(size_t most) {
  std::lock_guard<std::mutex> guard(handlers_mutex_);
  most_handlers_ = most;
}

void Link::handle(std::function<void()> work, bool leaves_traces) {
  std::lock_guard<std::mutex> guard(handlers_mutex_);
  waiting_.emplace_back(std::move(work), leaves_traces);
  hand_out();
}

void Link::hand_out() {
  while (!waiting_.empty()) {
    auto& [work, leaves_traces] = waiting_.front();
    Lane* const handler = free_handler(leaves_traces);
    if (handler == nullptr) {
      return;
    }
    handler->has_traces |= leaves_traces;
    handler->run(std::move(work));
    waiting_.pop_front();
  }
}

Lane* Link::free_handler(bool leaves_traces) {
  Lane* found = nullptr;
  for (auto& handler : handlers_) {
    if (handler->busy()) {
      continue;
    }
    if (!leaves_traces || !handler->has_traces) {
      return handler.get();
    }
    found = found == nullptr ? handler.get() : found;
  }
  if (handlers_.size() >= most_handlers_) {
    return found;
  }
  const int number = kFirstHandler + static_cast<int>(handlers_.size());
  handlers_.push_back(std::make_unique<Lane>(number, [this] { next_handler(); }));
  return handlers_.back().get();
}

void Link::wait_for_handlers() {
  std::unique_lock<std::mutex> lock(handlers_mutex_);
  handlers_free_.wait(lock, [this] {
    return waiting_.empty() &&
        std::none_of(handlers_.begin(), handlers_.end(), [](auto& handler) { return handler->busy(); });
  });
}

void Link::next_handler() {
  std::lock_guard<std::mutex> guard(handlers_mutex_);
  handlers_free_.notify_all();
  hand_out();
}

bool Link::read_command(std::string& command) {
  uint32_t size = 0;
  if (!read_all(fd_, reinterpret_cast<char*>(&size), sizeof size)) {
    return false;
  }
  command.resize(size);
  return read_all(fd_, command.data(), size);
}

void Link::about_to_wait() {
  Link* const link = started;
  if (link == nullptr) {
    return;
  }
  {
    std::lock_guard<std::mutex> guard(link->hint_mutex_);
    link->hint_ = true;
  }
  link->hinted_.notify_one();
}

bool Link::pause(long ns) {
  std::unique_lock<std::mutex> lock(hint_mutex_);
  hinted_.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return hint_; });
  return std::exchange(hint_, false);
}

void Link::serve() {
  // Pauses of microseconds, not of fifty of them.
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  Quiet quiet(::syscall(SYS_gettid));
  std::string command;
  while (true) {
    long pause_ns = alone_ ? kLeastPauseNs : kFirstPauseNs;
    int yields = alone_ ? kYields : 0;
    while (!quiet.check() || (on_quiet && on_quiet())) {
      if (yields > 0) {
        --yields;
        ::sched_yield();
        continue;
      }
      pause_ns = pause(pause_ns) ? kLeastPauseNs : std::min(4 * pause_ns, kMostPauseNs);
    }
    if (wants_turn()) {
      await_turn();
      continue;
    }
    report();
    if (!read_command(command)) {
      leave();  // the coordinator is gone
    }
    for (const int fd : files_of_batch_) {  // it has opened them: it gives a command when it has heard all
      ::close(fd);
    }
    files_of_batch_.clear();
    obey(command);
  }
}

void Link::obey(const std::string& command) {
  Reader reader(command);
  auto kind = reader.get<char>();
  bool never_ahead = false;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    now_ = reader.get<double>();
    ahead_ = kind == 'a';
    never_ahead = ahead_ && never_ahead_;
  }
  if (kind == 'a') {  // an answer before its turn
    kind = 'A';
    if (never_ahead) {
      await_turn();
    }
  }
  if (kind == 'X') {
    leave();
  }
  if (kind == 'A') {
    const auto question = reader.get<int64_t>();
    auto what = reader.get_bytes();
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = asked_.find(question);
    if (found != asked_.end() && found->second.then) {
      continue_with([then = std::move(found->second.then), what = std::move(what)] { then(what); });
      asked_.erase(found);
    } else if (found != asked_.end() && !found->second.there) {
      found->second.what = std::move(what);
      found->second.there = true;
      answered_.notify_all();
    }
  } else if (kind == 'C') {
    auto what = reader.get_bytes();
    caller_->run([this, what = std::move(what)] { say('C', on_call(what)); });
  } else if (on_command) {
    on_command(kind, reader);
  }
}

void Link::report() {
  std::vector<Item> items;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    items.swap(said_);
    files_of_batch_.swap(files_);
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tie(a.at_the_end, a.lane, a.number) < std::tie(b.at_the_end, b.lane, b.number);
  });
  const auto [calls, requests] = active ? active() : std::pair<int, int>{0, 0};
  Writer batch;
  batch.put<uint32_t>(0).put<uint32_t>(static_cast<uint32_t>(items.size()));
  batch.put<int32_t>(calls).put<int32_t>(requests);
  for (const auto& item : items) {
    batch.put<char>(item.kind).put<int32_t>(item.lane).put_bytes(item.what);
  }
  const auto size = static_cast<uint32_t>(batch.bytes.size() - sizeof(uint32_t));
  std::memcpy(batch.bytes.data(), &size, sizeof size);
  if (!write_all(fd_, batch.bytes.data(), batch.bytes.size())) {
    leave();
  }
}

} // namespace squall
