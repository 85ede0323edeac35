#ifndef STRATA_TESTS_EXCHANGE_ELASTIC_CLUSTER_H_
#define STRATA_TESTS_EXCHANGE_ELASTIC_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/job/views.h"
#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "server/testing/sim_copy.h"
#include "worker/aggregator/core/view_gate.h"
#include "worker/testing/training_node.h"

namespace strata::tests {

// A job of two shards whose nodes come and go, over a network that repeats frames and cuts
// connections, from a seed. The cluster plays the coordinator: it gets changes agreed, one after
// the other, and gives some of them up. Its messages to a process are delayed but arrive in order;
// some are repeated much later.
// Threads: one.
class ElasticCluster {
 public:
  static constexpr uint32_t kNodes = 4, kChunks = 4, kShards = 2;
  static constexpr uint64_t kClocks = 24;
  static constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push
  static constexpr uint32_t kAllElements = kElements * kChunks;

  struct Options {
    std::string job = "optimizer { sgd {} } consistency { sync {} }";
    bool counts = false;  // pushes, in place of training
    bool takes_first_weights = false;
    bool has_backups = false;  // and shard copies die
    bool nodes_die = false;
    bool shards_move = false;  // from server to server, one after the other
  };

  // A step that a process has begun, and its weights.
  struct Step {
    uint32_t node = 0;
    uint64_t clock = 0;
    std::vector<float> weights;
  };

  ElasticCluster(const Options& options, uint32_t seed);

  // Runs until all nodes have the last weights.
  void Run();

  // The nodes that took part in each clock, as decided.
  Views views() const { return *Views::Of(record_); }
  const std::vector<Step>& steps() const { return steps_; }
  // The final weights of all nodes that stay to the end.
  std::vector<float> Final() const;
  // Pushes accepted by the shards' final primaries.
  uint64_t pushes();
  const proto::JobRecord& record() const { return record_; }
  int given_up() const { return given_up_; }
  // Copies and nodes that have died, and backups that were replaced.
  int deaths() const { return deaths_; }
  int filled() const { return filled_; }
  // Shards that moved while nodes trained, and copies that learnt of a change while they were
  // filled for a move.
  int moves() const { return moves_; }
  int changed_while_filled() const { return changed_while_filled_; }

  // Element i of the first weights, and of a node's gradient in a step that begins with `weights`.
  static float FirstWeight(uint64_t i) { return 0.25f + 0.01f * static_cast<float>(i % 13); }
  static float Gradient(const std::vector<float>& weights, uint32_t node, uint64_t clock,
                        uint64_t i);

 private:
  // A process of a node.
  struct Process {
    uint32_t node = 0, incarnation = 0;
    std::unique_ptr<worker::ViewGate> gate;
    uint64_t told = 0;  // number of steps whose nodes it has been told
    bool trains = false;
    absl::Time heard_until;  // later messages arrive after this time
    std::unique_ptr<worker::TrainingNode> training;
  };
  struct Shard {
    std::vector<std::unique_ptr<server::SimCopy>> copies;
    server::SimCopy* primary = nullptr;
    server::SimCopy* backup = nullptr;  // null: no backup
    server::SimCopy* next = nullptr;    // being filled to become the backup
    uint32_t generation = 2;            // the newest one assigned
    bool is_lost = false;               // its primary is lost and not replaced yet
    bool is_whole = true;               // its backup is complete, if there is one
    int fills = 0;
    uint32_t era = 0;  // incremented at a death, which cancels pending actions

    std::vector<server::SimCopy*> Current() const;
  };
  enum class Stage { kIdle, kProposing, kInstalling };

  void InstallFirst(uint32_t shard);
  void Begin(uint32_t node);
  bool MayBegin(Process* process, uint64_t clock);
  float CountOf(const Process& process, uint64_t clock, uint64_t i) const;

  // The coordinator.
  void Drive();
  void BeginChange();
  void Propose();
  void OnPromised(const Process& process, uint32_t number, uint64_t from_clock);
  void Decide();
  void GiveUp();
  void Install();
  void Install(const Shard& shard, server::SimCopy* copy, const proto::ViewChange& change);
  void Tell();
  void ToNode(Process* process, std::function<void()> what);
  void TakeChange(Process* process, const proto::ViewChange& change);

  // Deaths.
  void KillNode();
  void BeginAgain(uint32_t node);
  void KillCopy(uint32_t shard);
  void Promote(uint32_t shard);
  void Fill(uint32_t shard);

  // Moves.
  void MoveNext();
  void MoveBesideBackup(uint32_t shard, uint32_t generation);
  void MoveAlone(uint32_t shard, uint32_t generation);
  void HasMoved(uint32_t shard, server::SimCopy* from);

  // Returns an empty copy. Install makes it receive later changes once it belongs to the shard.
  server::SimCopy* NewCopy(uint32_t shard, uint32_t generation);
  void Do(server::SimCopy* copy,
          const std::function<absl::Status(std::vector<server::ShardAction>*)>& what);
  // Calls `what` later, unless the shard has lost a copy meanwhile.
  void LaterOf(uint32_t shard, std::function<void()> what);
  void WhenWhole(uint32_t shard, server::SimCopy* filler, uint32_t generation,
                 std::function<void()> then);
  // Records the shard's current place and tells nodes.
  void TellWhereItLies(uint32_t shard);

  void Later(std::function<void()> what, absl::Duration most = absl::Milliseconds(20));
  void Tick();
  bool Done() const;
  std::string Describe() const;
  JobId job() const { return JobId(record_.job_id()); }

  const Options options_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<Process>> all_;
  std::vector<Process*> processes_;  // the newest process of each node; null: none has begun
  std::vector<uint32_t> incarnations_;
  std::vector<Step> steps_;

  Stage stage_ = Stage::kIdle;
  proto::ViewChange change_;  // in progress
  uint32_t numbers_ = 0;
  std::vector<std::optional<uint64_t>> promised_;  // by node: promise of its newest process
  std::set<const server::SimCopy*> installed_;
  int begun_ = 0, given_up_ = 0, deaths_ = 0, filled_ = 0;
  uint32_t turn_ = 0;  // of the shards to move
  int moves_ = 0, changed_while_filled_ = 0;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_EXCHANGE_ELASTIC_CLUSTER_H_
