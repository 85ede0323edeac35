// Stands in front of the functions of libabsl_synchronization that order memory accesses between
// threads: calls the library's own, found behind this one in the search order of symbols, and tells
// ThreadSanitizer what they order. Conditions are evaluated inside of the library by whichever
// thread holds the mutex, so accesses made there are not recorded.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstddef>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

// The library's function. Member functions are called as functions whose first argument is `this`,
// which the ABI of Linux on x86-64 and ARM64 makes the same.
template <typename Function>
Function* Behind(const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
}

class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

void* Address(const void* object) { return const_cast<void*>(object); }

}  // namespace

// Before the library's function: what this thread did is visible to whom the object lets on.
// After: what those who let this thread on did is visible here.
#define STRATA_FORWARD(symbol, signature, ...)         \
  static auto* const real = Behind<signature>(symbol); \
  const IgnoreReads ignore;                            \
  return real(__VA_ARGS__)

namespace absl {
namespace debian3 {

void Mutex::Lock() {
  [&] { STRATA_FORWARD("_ZN4absl7debian35Mutex4LockEv", void(Mutex*), this); }();
  __tsan_acquire(this);
}

void Mutex::ReaderLock() {
  [&] { STRATA_FORWARD("_ZN4absl7debian35Mutex10ReaderLockEv", void(Mutex*), this); }();
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  const bool is_locked = [&] {
    STRATA_FORWARD("_ZN4absl7debian35Mutex7TryLockEv", bool(Mutex*), this);
  }();
  if (is_locked) __tsan_acquire(this);
  return is_locked;
}

void Mutex::Unlock() {
  __tsan_release(this);
  STRATA_FORWARD("_ZN4absl7debian35Mutex6UnlockEv", void(Mutex*), this);
}

void Mutex::ReaderUnlock() {
  __tsan_release(this);
  STRATA_FORWARD("_ZN4absl7debian35Mutex12ReaderUnlockEv", void(Mutex*), this);
}

void Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  [&] {
    STRATA_FORWARD("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE", void(Mutex*, const Condition*),
                   this, &condition);
  }();
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  __tsan_release(this);
  const bool is_true = [&] {
    STRATA_FORWARD("_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
                   bool(Mutex*, const Condition*, Duration), this, &condition, timeout);
  }();
  __tsan_acquire(this);
  return is_true;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  const bool is_true = [&] {
    STRATA_FORWARD("_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE",
                   bool(Mutex*, const Condition*, Time), this, &condition, deadline);
  }();
  __tsan_acquire(this);
  return is_true;
}

void Mutex::LockWhen(const Condition& condition) {
  [&] {
    STRATA_FORWARD("_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE",
                   void(Mutex*, const Condition*), this, &condition);
  }();
  __tsan_acquire(this);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  const bool is_true = [&] {
    STRATA_FORWARD("_ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE",
                   bool(Mutex*, const Condition*, Duration), this, &condition, timeout);
  }();
  __tsan_acquire(this);
  return is_true;
}

void CondVar::Wait(Mutex* mutex) {
  __tsan_release(mutex);
  [&] {
    STRATA_FORWARD("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", void(CondVar*, Mutex*), this,
                   mutex);
  }();
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  __tsan_release(mutex);
  const bool is_late = [&] {
    STRATA_FORWARD("_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
                   bool(CondVar*, Mutex*, Duration), this, mutex, timeout);
  }();
  __tsan_acquire(mutex);
  return is_late;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  __tsan_release(mutex);
  const bool is_late = [&] {
    STRATA_FORWARD("_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
                   bool(CondVar*, Mutex*, Time), this, mutex, deadline);
  }();
  __tsan_acquire(mutex);
  return is_late;
}

// HasBeenNotified is inline: it reads the flag, which the library writes, with no function between.
void Notification::Notify() {
  static_assert(sizeof(Notification) > sizeof(Mutex), "a mutex, then the flag");
  __tsan_release(this);
  __tsan_release(reinterpret_cast<std::byte*>(this) + sizeof(Mutex));
  STRATA_FORWARD("_ZN4absl7debian312Notification6NotifyEv", void(Notification*), this);
}

void Notification::WaitForNotification() const {
  [&] {
    STRATA_FORWARD("_ZNK4absl7debian312Notification19WaitForNotificationEv",
                   void(const Notification*), this);
  }();
  __tsan_acquire(Address(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool is_notified = [&] {
    STRATA_FORWARD("_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE",
                   bool(const Notification*, Duration), this, timeout);
  }();
  __tsan_acquire(Address(this));
  return is_notified;
}

bool BlockingCounter::DecrementCount() {
  __tsan_release(this);
  STRATA_FORWARD("_ZN4absl7debian315BlockingCounter14DecrementCountEv", bool(BlockingCounter*),
                 this);
}

void BlockingCounter::Wait() {
  [&] {
    STRATA_FORWARD("_ZN4absl7debian315BlockingCounter4WaitEv", void(BlockingCounter*), this);
  }();
  __tsan_acquire(this);
}

}  // namespace debian3
}  // namespace absl
