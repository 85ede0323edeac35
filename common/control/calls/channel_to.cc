#include "common/control/calls/channel_to.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "common/control/channel.h"
#include "common/control/dial.h"
#include "common/ipc/unix_socket.h"

namespace strata::control {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(200);
// With several addresses, for one of them that says nothing.
constexpr absl::Duration kTryOfSeveral = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& coordinator,
                                                         const AddressRound& round,
                                                         const Credentials& credentials,
                                                         absl::Time until) {
  if (const std::optional<std::string> path = UnixPath(coordinator)) {
    absl::StatusOr<UniqueFd> fd = DialUnix(*path);
    while (absl::IsUnavailable(fd.status()) && absl::Now() < until) {
      absl::SleepFor(std::min(kPause, until - absl::Now()));
      fd = DialUnix(*path);
    }
    if (fd.ok()) return ChannelOn(*std::move(fd));
    return fd.status();
  }
  const std::string& address = round.current();
  if (!round.is_one()) {
    const absl::StatusOr<UniqueFd> probe = DialTcp(address, kTryOfSeveral, kTryOfSeveral);
    if (!probe.ok()) return probe.status();
    until = std::min(until, absl::Now() + kTryOfSeveral);
  }
  const absl::StatusOr<Line> line = LineTo(address, credentials);
  if (!line.ok()) return line.status();
  const absl::Status up = line->Await(until);
  if (up.ok()) return line->channel;
  if (absl::IsUnavailable(up)) return absl::UnavailableError(round.is_one() ? "" : "no answer");
  return Refused(address, std::string(up.message()));
}

}  // namespace strata::control
