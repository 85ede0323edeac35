#ifndef STRATA_CLI_RENDER_TOP_TOP_SCREEN_H_
#define STRATA_CLI_RENDER_TOP_TOP_SCREEN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::cli {

// What `strata top` knows of a cluster.
struct TopScene {
  std::string coordinator;  // the address that is asked
  proto::ListNodesReply nodes;
  std::vector<proto::JobStatus> jobs;
  absl::Time taken = absl::InfinitePast();  // when the coordinator last answered
  std::string problem;                      // why it does not now; empty: it does
};

struct TopSize {
  int columns = 100;
  int rows = 0;          // 0: as many as there is to say
  bool colours = false;  // by escape sequences; nothing is said by colour alone
};

// From here on a wait is called stuck; until then a rank only waits. The same as the web page's.
constexpr double kStuckSeconds = 10;

// Who is stuck, then the jobs that run or wait and those that have ended last, then the daemons,
// what is wrong first. Lines of at most `columns` characters, at most `rows` of them (but 16), each
// with its end; what is left out is counted.
std::string TopScreen(const TopScene& scene, const TopSize& size, absl::Time now);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_TOP_TOP_SCREEN_H_
