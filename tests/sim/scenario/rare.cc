#include "tests/sim/scenario/rare.h"

#include <iterator>

namespace strata::sim {
namespace {

constexpr const char* kNames[] = {"queue full",
                                  "early resend",
                                  "HELLO twice",
                                  "RETRY",
                                  "reconnect",
                                  "slow rank",
                                  "stopped node",
                                  "stopped shard",
                                  "stale view",
                                  "future view",
                                  "other generation",
                                  "clock jump",
                                  "other job",
                                  "other node",
                                  "other content",
                                  "INIT conflict",
                                  "install twice",
                                  "publish order",
                                  "node restart",
                                  "session break",
                                  "slow start",
                                  "stalled line",
                                  "old Register",
                                  "no answer",
                                  "unreachable",
                                  "cancel",
                                  "restart",
                                  "stopped coordinator",
                                  "lost worker",
                                  "lost server",
                                  "silent daemon",
                                  "repeated connection",
                                  "gone for good",
                                  "stopped server",
                                  "cut-off server",
                                  "servers apart",
                                  "both lost",
                                  "restart at save",
                                  "taken over",
                                  "gone alone",
                                  "new copy",
                                  "new copy whole",
                                  "late copy takes over",
                                  "no room for copy",
                                  "disturbed fill",
                                  "disturbed new copy",
                                  "late removal",
                                  "late report",
                                  "late worker",
                                  "drain",
                                  "undrain",
                                  "leaving",
                                  "node dies",
                                  "joiner begins",
                                  "joined",
                                  "left",
                                  "void change",
                                  "disturbed change",
                                  "restart at change"};
static_assert(std::size(kNames) == kRares);

}  // namespace

const char* ToString(Rare rare) { return kNames[static_cast<size_t>(rare)]; }

}  // namespace strata::sim
