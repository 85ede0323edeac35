#ifndef STRATA_WORKER_EXCHANGE_TESTING_FAKE_SHARD_H_
#define STRATA_WORKER_EXCHANGE_TESTING_FAKE_SHARD_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::worker {

// What the exchange's tests hold a conversation with: one synchronous shard that *adds* the sums of
// all nodes to the weights, once every node has pushed the clock. Plain data, no threads.
class FakeShard {
 public:
  struct Reply {
    transport::ConnectionId connection;
    wire::Frame frame;
  };

  explicit FakeShard(uint32_t nodes) : nodes_(nodes) {}

  std::vector<Reply> OnFrame(transport::ConnectionId connection, const wire::Frame& frame);
  void OnDisconnected(transport::ConnectionId connection) { greeted_.erase(connection); }

  // Frames of other generations are answered with RETRY; 0 at first.
  void set_generation(uint32_t generation) { generation_ = generation; }
  // Answer the next so many data frames with RETRY.
  void RetryNext(int frames) { retries_ = frames; }
  // Answer the first push of this (chunk, clock) with an error.
  void RefusePush(uint32_t chunk, uint64_t clock, wire::ErrorCode error, const std::string& text);

  // Goes on from a checkpoint: `pushed` of each node are in the weights of version `version`.
  // Nobody may offer first weights.
  void Resume(uint32_t chunk, std::vector<float> weights, uint64_t version,
              std::map<uint32_t, uint64_t> pushed);

  // Pushes that were taken, by (node, chunk): always that many clocks in a row.
  uint64_t taken(uint32_t node, uint32_t chunk) { return chunks_[chunk].pushed[node]; }
  // Lists what a shard must not see: data before HELLO, a clock ahead, other bits under an old
  // clock.
  const std::vector<std::string>& faults() const { return faults_; }
  int replays() const { return replays_; }

 private:
  struct Chunk {
    std::vector<float> weights;
    uint64_t version = 0;
    std::map<uint32_t, uint64_t> pushed;                              // by node
    std::map<uint64_t, std::map<uint32_t, std::vector<float>>> sums;  // by clock and node
    std::map<uint32_t, uint64_t> checksum;                            // newest push, by node
    std::map<uint32_t, transport::ConnectionId> waiting;              // by node
    std::map<uint32_t, transport::ConnectionId> cutting;              // by node
  };

  void OnInit(transport::ConnectionId connection, const wire::Frame& frame);
  // Gives what it has, whatever the clock.
  void OnPull(transport::ConnectionId connection, const wire::Header& header);
  void OnPush(transport::ConnectionId connection, const wire::Frame& frame);
  void AnswerCuts();
  void Say(transport::ConnectionId connection, wire::Op op, const wire::Header& request,
           std::vector<float> weights = {}, uint64_t version = 0, uint64_t received = 0);
  void Refuse(transport::ConnectionId connection, wire::Op op, const wire::Header& request,
              wire::ErrorCode error, const std::string& text);

  const uint32_t nodes_;
  std::set<transport::ConnectionId> greeted_;
  std::map<uint32_t, Chunk> chunks_;
  bool resumes_ = false;
  std::set<uint32_t> retired_;
  uint32_t generation_ = 0;
  int retries_ = 0;
  int replays_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, std::pair<wire::ErrorCode, std::string>> refused_;
  std::vector<std::string> faults_;
  std::vector<Reply> replies_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_TESTING_FAKE_SHARD_H_
