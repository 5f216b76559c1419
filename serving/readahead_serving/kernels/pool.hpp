// Threads that help the caller, for as long as they are there: a caller never waits for a thread that has not begun.
//
// A step is some three hundred short loops. OpenMP ends each by waiting for all its threads; where another process holds
// a core, that is a scheduler's time slice for a loop of 50 microseconds. Here the caller takes items like everybody
// else, and when none are left it waits only for the helpers that are amid one.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

class Pool {
 public:
  // Calls work(i) for each i below `count`, in any order, on up to `threads` threads of which this is one. One caller
  // at a time.
  void run(int64_t threads, int64_t count, const std::function<void(int64_t)>& work) {
    if (threads < 2 || count < 2) {
      for (int64_t i = 0; i < count; ++i) work(i);
      return;
    }
    Job job{work, count};
    {
      std::lock_guard<std::mutex> hold(mutex_);
      for (; helpers_ < threads - 1; ++helpers_) std::thread(&Pool::help, this).detach();
      job.places = std::min(threads - 1, count - 1);
      job_ = &job;
      calls_.fetch_add(1, std::memory_order_release);
    }
    called_.notify_all();
    job.take();
    std::unique_lock<std::mutex> hold(mutex_);
    job_ = nullptr;
    left_.wait(hold, [&] { return job.inside == 0; });
  }

 private:
  struct Job {
    const std::function<void(int64_t)>& work;
    int64_t count;
    int64_t places = 0;  // for helpers; this and `inside` under the mutex
    int64_t inside = 0;
    std::atomic<int64_t> next{0};

    void take() {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
    }
  };

  static constexpr std::chrono::microseconds kAwake{30};  // that a helper watches for the next call before it sleeps

  void help() {
    uint64_t seen = 0;
    for (;;) {
      const auto until = std::chrono::steady_clock::now() + kAwake;
      while (calls_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until) _mm_pause();
      std::unique_lock<std::mutex> hold(mutex_);
      called_.wait(hold, [&] { return calls_.load(std::memory_order_relaxed) != seen; });
      seen = calls_.load(std::memory_order_relaxed);
      Job* job = job_;
      if (job == nullptr || job->places == 0) continue;
      --job->places;
      ++job->inside;
      hold.unlock();
      job->take();
      hold.lock();
      if (--job->inside == 0) left_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable called_, left_;
  std::atomic<uint64_t> calls_{0};
  Job* job_ = nullptr;
  int64_t helpers_ = 0;
};

Pool& pool();
