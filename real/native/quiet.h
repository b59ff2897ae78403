// Whether every other thread of this process is blocked.
//
// A thread is blocked when the kernel says that it sleeps (state S) and it does not run. The state
// alone does not say so: a thread that is about to sleep has it while it still runs, and may find
// that there is no need to. And one look at all threads is not enough: A may wake B after B was looked
// at, and sleep when A is. So each is looked at in this order: how long it has run so far, its state,
// and again how long. The clock of a thread goes on, in nanoseconds, exactly while it is on a
// processor. If none went on and all slept, then all were blocked at the moment between the last look
// at a state and the first second reading: nothing but a clock, a signal or this thread can wake
// one then.
//
// Most looks find somebody at work, as a rule the one whom the last look found: it is looked at first.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace squall {

class Quiet {
 public:
  // For the thread that will ask, by its id.
  explicit Quiet(long self) : self_(self) {}

  ~Quiet() {
    forget();
  }

  bool check() {
    if (listed_ < 0 && !list()) {
      return false;
    }
    if (suspect_ < threads_.size()) {
      const char state = look(threads_[suspect_]);
      if (state != 'S') {
        return state == 0 ? relist() : false;
      }
    }
    for (auto& thread : threads_) {
      if (!ran(thread, thread.before)) {
        return relist();
      }
    }
    for (size_t i = 0; i < threads_.size(); ++i) {
      const char state = look(threads_[i]);
      if (state != 'S') {
        suspect_ = i;
        return state == 0 ? relist() : false;
      }
    }
    for (auto& thread : threads_) {
      long long after = 0;
      if (!ran(thread, after)) {
        return relist();
      }
      if (after != thread.before) {
        return false;
      }
    }
    suspect_ = threads_.size();
    return count() == listed_ ? true : relist();
  }

 private:
  struct Thread {
    int stat = -1;
    clockid_t clock = 0;
    long long before = 0;
  };

  // The threads of a process are the links of its directory of tasks, less two of its own.
  static long count() {
    struct stat info {};
    return ::stat("/proc/self/task", &info) == 0 ? static_cast<long>(info.st_nlink) - 2 : -1;
  }

  bool relist() {
    listed_ = -1;
    suspect_ = 0;
    return false;
  }

  void forget() {
    for (auto& thread : threads_) {
      ::close(thread.stat);
    }
    threads_.clear();
  }

  bool list() {
    forget();
    DIR* directory = ::opendir("/proc/self/task");
    if (directory == nullptr) {
      return relist();
    }
    long found = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const long tid = std::strtol(entry->d_name, nullptr, 10);
      if (tid == 0) {
        continue;
      }
      ++found;
      if (tid == self_) {
        continue;
      }
      Thread thread;
      char path[64];
      std::snprintf(path, sizeof path, "/proc/self/task/%ld/stat", tid);
      thread.stat = ::open(path, O_RDONLY | O_CLOEXEC);
      // The clock of a thread by its id, as pthread_getcpuclockid makes it.
      thread.clock = (~static_cast<clockid_t>(tid) << 3) | 6;
      threads_.push_back(thread);
    }
    ::closedir(directory);
    listed_ = found;
    return count() == found;
  }

  char look(const Thread& thread) {
    const ssize_t size = ::pread(thread.stat, text_, sizeof text_ - 1, 0);
    if (size <= 0) {
      return 0;
    }
    text_[size] = 0;
    // pid (name) state ...; a name may hold anything, also parentheses.
    const char* end = std::strrchr(text_, ')');
    return end == nullptr ? static_cast<char>(0) : end[2];
  }

  // Nanoseconds on a processor; false if there is no such thread any more.
  static bool ran(const Thread& thread, long long& nanoseconds) {
    timespec time{};
    if (::clock_gettime(thread.clock, &time) != 0) {
      return false;
    }
    nanoseconds = static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
    return true;
  }

  const long self_;
  long listed_ = -1;
  // The place of whom the last look found at work; nobody's if it is past the end.
  size_t suspect_ = 0;
  std::vector<Thread> threads_;
  char text_[4096];
};

} // namespace squall
