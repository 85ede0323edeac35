#ifndef STRATA_CLI_WEB_WEB_LOGS_H_
#define STRATA_CLI_WEB_WEB_LOGS_H_

#include <functional>
#include <memory>

#include "cli/options/options.h"
#include "cli/watch/log_watch.h"

namespace strata::cli {

// Makes what reads jobs' logs for a page, as the user of these options.
std::function<std::unique_ptr<LogSource>()> WebLogs(const CoordinatorOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_WEB_LOGS_H_
