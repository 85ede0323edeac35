#ifndef STRATA_CLI_RENDER_DRAIN_TEXT_H_
#define STRATA_CLI_RENDER_DRAIN_TEXT_H_

#include <cstdint>
#include <string>

#include "proto/control.pb.h"

namespace strata::cli {

// How many shards of a server, or nodes of a worker, are left there.
uint32_t DrainLeft(const proto::DrainReply& told);
// What was done, in a line, and a line for each job that cannot leave now.
std::string DrainText(const std::string& daemon, const proto::DrainReply& told);
// "s1: 3 of 12 shards moved", and which job waits for what, without a line's end. `all`: that were
// there at first.
std::string DrainProgress(const std::string& daemon, uint32_t all, const proto::DrainReply& told);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_DRAIN_TEXT_H_
