#ifndef STRATA_CLI_WEB_WEB_CLIENTS_H_
#define STRATA_CLI_WEB_WEB_CLIENTS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "cli/options/options.h"
#include "cli/render/log_watch.h"
#include "common/control/coordinator_client.h"

namespace strata::cli {

// The deadline of a page's requests: it reports a missing answer soon, and retries.
inline constexpr absl::Duration kWebPatience = absl::Seconds(2);

// Makes clients for a page (cli/render), with that deadline and each rank's reports.
std::function<std::unique_ptr<control::CoordinatorClient>()> WebClients(
    const CoordinatorOptions& options);

// Prints the next link: "strata web link url=...".
void PrintWebLink(const std::string& url);

// Makes the readers of jobs' logs for a page, as the user of these options.
std::function<std::unique_ptr<LogSource>()> WebLogs(const CoordinatorOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_WEB_CLIENTS_H_
