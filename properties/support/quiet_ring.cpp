// Never all blocked before the end: threads hand on a token, `hops` times a round, and some other
// way of waiting stands in for a hop. Prints how often a look said "quiet" before a round was over.
#include <sys/wait.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "quiet.h"

namespace {

std::mutex mutex;
std::vector<std::condition_variable> wake;
int turn = -1;
long left = 0;
constexpr int kOver = -2;

// What a hop may be: only the token, a sleep, a child process, or a wait of 5 ms for nobody.
void dawdle(const std::string& way, long hop) {
  if (way == "sleep" && hop % 16 == 0) {
    ::usleep(2000);
  } else if (way == "child" && hop % 16 == 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::usleep(2000);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  } else if (way == "timed" && hop % 16 == 0) {
    std::mutex own;
    std::condition_variable nobody;
    std::unique_lock<std::mutex> lock(own);
    nobody.wait_for(lock, std::chrono::milliseconds(5));
  }
}

void play(int me, int threads, const std::string& way) {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    wake[me].wait(lock, [me] { return turn == me; });
    if (left == 0) {
      turn = kOver;
      continue;
    }
    const long hop = left--;
    lock.unlock();
    dawdle(way, hop);
    lock.lock();
    turn = (me + 1 + static_cast<int>(hop) % (threads - 1)) % threads;
    wake[turn].notify_one();
  }
}

} // namespace

int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]);
  const long hops = std::atol(arguments[2]);
  const int rounds = std::atoi(arguments[3]);
  const std::string way = arguments[4];
  wake = std::vector<std::condition_variable>(threads);
  for (int me = 0; me < threads; ++me) {
    std::thread(play, me, threads, way).detach();
  }
  squall::Quiet quiet(::syscall(SYS_gettid));
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    {
      std::lock_guard<std::mutex> guard(mutex);
      left = hops;
      turn = round % threads;
      wake[turn].notify_one();
    }
    bool over = false;
    while (!over) {
      const bool said = quiet.check();
      std::lock_guard<std::mutex> guard(mutex);
      over = turn == kOver;
      wrong += said && !over;
    }
    while (!quiet.check()) {  // it must also come
      ::usleep(100);
    }
  }
  std::printf("%d\n", wrong);
  std::fflush(stdout);
  ::_exit(0);
}
