#include "worker/client/c/process_guards.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace strata::client {
namespace {

struct GoodExit {
  std::function<absl::Status()> call;
  pid_t process = 0;
};

void OnExit(int status, void* argument) {
  const auto* const good = static_cast<const GoodExit*>(argument);
  if (status != 0 || good->call == nullptr || good->process != getpid()) return;
  const absl::Status done = good->call();
  if (done.ok()) return;
  std::fprintf(stderr, "strata: the job has stopped: %s\n", std::string(done.message()).c_str());
  std::fflush(nullptr);
  _exit(1);  // exit() is under way
}

}  // namespace

void AtGoodExit(std::function<absl::Status()> call) {
  // Outlives all destructors of static objects, because it is used among them.
  static GoodExit* const good = [] {
    auto* const made = std::make_unique<GoodExit>().release();
    on_exit(OnExit, made);
    return made;
  }();
  good->call = std::move(call);
  good->process = getpid();
}

namespace {

// Old lists are never freed, because a fault on another thread may be reading one.
std::atomic<const std::vector<GuardedRange>*> guarded{nullptr};
struct sigaction former;

// Uses only calls that a signal handler may make.
void Print(const char* text) {
  const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  const std::vector<GuardedRange>* ranges = guarded.load();
  const auto* const address = static_cast<const std::byte*>(info->si_addr);
  for (size_t i = 0; ranges != nullptr && i < ranges->size(); ++i) {
    const GuardedRange& range = (*ranges)[i];
    const auto* const begin = static_cast<const std::byte*>(range.begin);
    if (address < begin || address >= begin + range.bytes) continue;
    Print("strata: the program wrote to \"");
    Print(range.name.c_str());
    // A write by one rank belongs to no step, so it is undefined when others see it.
    Print(
        "\", whose weights are the job's: they change by gradients alone; set weights before"
        " training starts, or have the optimizer on the ranks\n");
    break;
  }
  if ((former.sa_flags & SA_SIGINFO) != 0 && former.sa_sigaction != nullptr) {
    former.sa_sigaction(signal, info, context);
    return;
  }
  // The instruction is executed again, and ends the process as it would have.
  struct sigaction original = former;
  if (original.sa_handler == SIG_IGN) original.sa_handler = SIG_DFL;
  sigaction(signal, &original, nullptr);
}

}  // namespace

void GuardWrites(std::vector<GuardedRange> ranges) {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &former) == 0;
  }();
  static_cast<void>(installed);
  guarded.store(std::make_unique<std::vector<GuardedRange>>(std::move(ranges)).release());
}

}  // namespace strata::client
