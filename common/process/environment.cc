#include "common/process/environment.h"

#include <unistd.h>

namespace strata {

Environment OwnEnvironment() {
  Environment variables;
  if (environ == nullptr) return variables;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const size_t equals = text.find('=');
    // Of two with one name the first counts, as for getenv.
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

}  // namespace strata
