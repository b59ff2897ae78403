// The connection of a worker process to the coordinator.
//
// The coordinator gives one command at a time and reads one batch for each: everything that the
// process wants to tell once it is quiet. So exactly one worker of a scenario runs at a time, and
// what it did in answer to one command is one batch.
//
// But a worker may be given an answer before its turn, if nothing else can come to it until then. It goes on
// at the same time as others, in memory of its own; before it does what others can see, it waits for its turn.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quiet.h"

namespace squall {

// Plain little-endian fields, one after the other.
class Writer {
 public:
  template <typename T>
  Writer& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& put_bytes(const char* data, size_t size) {
    put<uint32_t>(static_cast<uint32_t>(size));
    bytes.append(data, size);
    return *this;
  }
  Writer& put_bytes(const std::string& data) {
    return put_bytes(data.data(), data.size());
  }
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  template <typename T>
  T get() {
    T value{};
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string get_bytes() {
    const auto size = get<uint32_t>();
    return std::string(take(size), size);
  }
  bool at_end() const {
    return at_ == end_;
  }

 private:
  const char* take(size_t size);
  const char* at_;
  const char* end_;
};

// A thread that does one thing after the other.
class Lane {
 public:
  Lane(int number, std::function<void()> done);
  void run(std::function<void()> work);
  bool busy();
  // Whether it has run what leaves something behind in its thread.
  bool has_traces = false;

 private:
  void loop(int number);
  std::function<void()> done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
};

class Link {
 public:
  explicit Link(int fd);

  // Starts the thread that serves the coordinator. Once, and not before a fork. All threads that are
  // started from then on stay on `processor`, if it is not negative.
  void start(int processor);

  // Tells the coordinator something and blocks until it answers.
  std::string ask(char kind, const std::string& what);

  // The same in two halves: the number of the question, and the answer to it.
  int64_t begin(char kind, const std::string& what);
  std::string end(int64_t question);

  // Tells the coordinator something that has no answer.
  void tell(char kind, const std::string& what);

  // Tells the coordinator something and returns the number of the question; `then` is given the
  // answer on a thread of its own kind, never on one that handles messages.
  int64_t ask_then(char kind, const std::string& what, std::function<void(const std::string&)> then);

  // Somebody here has answered, with nothing; the coordinator need not, and `then` is not called.
  void wake(int64_t question);

  // Blocks until it is this process's turn. `always`: from now on it does nothing before its turn.
  void take_turn(bool always);

  // This thread is about to wait for others: it may well be time to look whether all do.
  static void about_to_wait();

  // What to say with the next batch; `kind` tells the coordinator how to read it.
  void say(char kind, const std::string& what);

  // The same with an open file that the coordinator may open for itself when it hears of it; it is
  // closed here afterwards. -1 is none. `at_the_end`: a thread that handles messages says it after all others.
  void say_with(char kind, const std::string& what, int fd, bool at_the_end = false);

  // Runs `work` on the free thread with the lowest number, or when one gets free. What `leaves_traces` in
  // its thread is run on one that has none, as long as there are any, as it would be by a pool whose threads take turns.
  void handle(std::function<void()> work, bool leaves_traces = false);
  void set_handlers(size_t most);
  // Until all that was to be handled has been. Not for a handler itself.
  void wait_for_handlers();

  // Virtual time in seconds, as of the last command.
  double now();

  // Batches order what was said by the lane of the thread that said it. Threads without one
  // get the next free number when they first say something.
  static void set_lane(int lane);

  // Commands that are not for the link itself, by kind. Called on the link's thread.
  std::function<void(char kind, Reader& reader)> on_command;
  // Called when all is quiet; true if it has set something in motion.
  std::function<bool()> on_quiet;
  // Calls of the coordinator: bytes in, bytes out. Called on a thread of its own.
  std::function<std::string(const std::string&)> on_call;
  // How many calls of ours are not answered yet, and how many of others' we have not answered.
  std::function<std::pair<int, int>()> active;

 private:
  struct Item {
    int lane;
    bool at_the_end;
    uint64_t number;
    char kind;
    std::string what;
  };

  void serve();
  // Whether it was ended by a hint.
  bool pause(long ns);
  bool read_command(std::string& command);
  bool wants_turn();
  void await_turn();
  void obey(const std::string& command);
  void report();
  void next_handler();
  // Both with the lock of the handlers.
  void hand_out();
  Lane* free_handler(bool leaves_traces);
  void continue_with(std::function<void()> work);

  const int fd_;
  // Whether all threads share one processor.
  bool alone_ = false;
  std::mutex mutex_;
  std::vector<Item> said_;
  // Files of what was said since the last batch, and of what was said in it.
  std::vector<int> files_;
  std::vector<int> files_of_batch_;
  uint64_t count_ = 0;
  double now_ = 0.0;
  struct Answer {
    bool there = false;
    std::string what;
    // If nobody waits for it.
    std::function<void(const std::string&)> then;
  };
  std::condition_variable answered_;
  // Until their end.
  std::map<int64_t, Answer> asked_;
  int64_t questions_ = 0;
  // Whether it goes on before its turn, how many threads wait for that, and whether it never does.
  bool ahead_ = false;
  int awaiting_turn_ = 0;
  bool never_ahead_ = false;
  std::condition_variable turn_;
  // Of whoever is about to wait, since the last look.
  bool hint_ = false;
  std::mutex hint_mutex_;
  std::condition_variable hinted_;
  std::vector<std::unique_ptr<Lane>> handlers_;
  // What is to be handled, and whether it leaves traces.
  std::deque<std::pair<std::function<void()>, bool>> waiting_;
  size_t most_handlers_ = 16;
  std::mutex handlers_mutex_;
  std::condition_variable handlers_free_;
  std::unique_ptr<Lane> caller_;
  // Threads on which what was asked for goes on: as many as are blocked at a time.
  std::vector<std::unique_ptr<Lane>> continuations_;
};

} // namespace squall
