#ifndef STRATA_CLI_OPTIONS_WEB_OPTIONS_H_
#define STRATA_CLI_OPTIONS_WEB_OPTIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "cli/options/options.h"
#include "common/control/coordinator_client.h"

namespace strata::cli {

// How long a page asks: it says soon that nobody answers, and asks again.
inline constexpr absl::Duration kWebPatience = absl::Seconds(2);

// Makes clients for a page (cli/watch): they ask so long only, and are told each rank's reports.
std::function<std::unique_ptr<control::CoordinatorClient>()> WebClients(
    const CoordinatorOptions& options);

// Prints the next link: "strata web link url=...".
void PrintWebLink(const std::string& url);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_WEB_OPTIONS_H_
