#include "worker/client/c/good_exit.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
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

}  // namespace strata::client
