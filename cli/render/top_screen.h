#ifndef STRATA_CLI_RENDER_TOP_SCREEN_H_
#define STRATA_CLI_RENDER_TOP_SCREEN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::cli {

// The cluster as `strata top` sees it.
struct TopScene {
  std::string coordinator;  // the queried address
  proto::ListNodesReply nodes;
  std::vector<proto::JobStatus> jobs;
  absl::Time taken = absl::InfinitePast();  // when the coordinator last answered
  std::string problem;                      // why it does not answer now; empty: it does
};

struct TopSize {
  int columns = 100;
  int rows = 0;          // 0: unlimited
  bool colours = false;  // by escape sequences; colour is never the only cue
};

// A wait of this length is called stuck, as on the web page; a shorter one just a wait.
constexpr double kStuckSeconds = 10;

// Shows stuck ranks, then jobs that run or wait and those that ended recently, then the daemons,
// problems first. Lines have at most `columns` characters and their ends, and there are at most
// max(`rows`, 16); omitted ones are counted.
std::string TopScreen(const TopScene& scene, const TopSize& size, absl::Time now);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_TOP_SCREEN_H_
