#include "common/os/environment.h"

#include <sys/prctl.h>
#include <unistd.h>

#include "common/require.h"

namespace strata {

Environment OwnEnvironment() {
  Environment variables;
  if (environ == nullptr) return variables;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const size_t equals = text.find('=');
    // The first of two with the same name counts, as for getenv.
    if (equals != std::string::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

std::string Variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

void MakeUndumpable(const Environment& environment) {
  if (!Variable(environment, kDumpable).empty()) return;
  STRATA_REQUIRE(prctl(PR_SET_DUMPABLE, 0) == 0);  // cannot fail in any state of a process
}

}  // namespace strata
