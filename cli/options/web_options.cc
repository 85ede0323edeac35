#include "cli/options/web_options.h"

#include <algorithm>
#include <cstdio>

namespace strata::cli {

std::function<std::unique_ptr<control::CoordinatorClient>()> WebClients(
    const CoordinatorOptions& options) {
  control::CoordinatorClient::Options client = ClientOptions(options);
  client.deadline = std::min(client.deadline, kWebPatience);
  client.reports = true;
  return [client] { return control::CoordinatorClient::Create(client); };
}

void PrintWebLink(const std::string& url) {
  std::printf("strata web link url=%s\n", url.c_str());
  std::fflush(stdout);
}

}  // namespace strata::cli
