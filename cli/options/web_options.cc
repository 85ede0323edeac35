#include "cli/options/web_options.h"

#include <algorithm>
#include <cstdio>

#include "absl/time/time.h"

namespace strata::cli {
namespace {

// A page says soon that nobody answers, and asks again.
constexpr absl::Duration kPatience = absl::Seconds(2);

}  // namespace

std::function<std::unique_ptr<control::CoordinatorClient>()> WebClients(
    const CoordinatorOptions& options) {
  control::CoordinatorClient::Options client = ClientOptions(options);
  client.deadline = std::min(client.deadline, kPatience);
  client.reports = true;
  return [client] { return control::CoordinatorClient::Create(client); };
}

void PrintWebLink(const std::string& url) {
  std::printf("strata web link url=%s\n", url.c_str());
  std::fflush(stdout);
}

}  // namespace strata::cli
