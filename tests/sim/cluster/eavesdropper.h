#ifndef STRATA_TESTS_SIM_CLUSTER_EAVESDROPPER_H_
#define STRATA_TESTS_SIM_CLUSTER_EAVESDROPPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/seal/aead.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"

namespace strata::sim {

class World;

// Somebody on the way who hears all that is sent, and says how connections begin, handshake and
// HELLO included, once more over connections of his own, as it was or changed. Only in runs whose
// jobs are all sealed: elsewhere he would evict nodes.
//
// As he hears everything, it is he who holds seals against their invariants: no number stands for
// two payloads of one sender, frames are taken as they were sent, nothing that he says himself is
// taken, and no connection over which a frame was taken ends by it.
class Eavesdropper {
 public:
  explicit Eavesdropper(World* world);

  // The sealer of the job's payloads at the endpoint of this name starts again, with another salt.
  void OnSalt(const std::string& endpoint, uint32_t job);
  // What the network does to a connection, seen from either end.
  void OnNote(transport::SimNote note, transport::ConnectionId connection);
  // A sealed endpoint has handed a frame to its owner. `is_protected`: it knows the job's secret.
  void OnTaken(transport::ConnectionId connection, const wire::Frame& frame, bool is_protected);
  // A sealed endpoint has told its owner that a connection is over.
  void OnEnded(transport::ConnectionId connection);

 private:
  // How the frames of a connection that was made to an address begin.
  struct Beginning {
    std::string address;
    std::vector<wire::Frame> frames;
  };
  using EncodedHeader = std::array<std::byte, wire::kHeaderBytes>;
  // What was said from one end of a connection.
  struct Heard {
    std::string sender;
    Beginning beginning;                  // of the end that has connected
    uint64_t salt = 0;                    // of its payloads; 0: nothing was sealed yet
    std::deque<EncodedHeader> under_way;  // of sealed frames that were not taken yet
    bool was_taken = false;               // one of them was
  };
  // How he repeats a connection.
  enum class Way {
    kWhole,        // all that was heard
    kUnproven,     // the handshake's first flight, and then as if it were done
    kNoHandshake,  // sealed frames alone
    kForged,       // frames without their seals, of the process after that which has sent them
  };
  static constexpr uint64_t kWays = 4;

  void OnSent(const transport::SimEndpoint& from, const std::string& address,
              transport::ConnectionId connection, const wire::Frame& frame);
  // What seals keep as it is.
  static EncodedHeader SealedPart(const wire::Frame& frame);
  void CheckNumber(uint64_t salt, const wire::Frame& frame);
  void Repeat(const Beginning& heard, Way way);

  World* const world_;
  std::map<transport::ConnectionId, Heard> heard_;  // by the sender's end
  std::set<transport::ConnectionId> own_;
  std::set<uint64_t> disturbed_;  // connections, by half the id of their ends
  uint64_t last_salt_ = 0;
  std::map<std::pair<std::string, uint32_t>, uint64_t> salts_;  // by endpoint and job
  // By salt and number: the payload's tag, which no other payload has.
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, seal::Tag> numbers_;
  transport::SimEndpoint endpoint_;
};

class World;

// A process's sealed endpoint, which tells the eavesdropper what he cannot hear: what it hands to
// its owner, and when payloads have another salt.
class WatchedEndpoint final : public transport::SealedEndpoint {
 public:
  WatchedEndpoint(World* world, const transport::SimEndpoint::Options& options, Unsealed takes);

  absl::Status Protect(JobId job, const seal::JobKeys& keys) override;
  void Forget(JobId job) override;
  void Poll(absl::Duration timeout, std::vector<transport::Event>* events) override;

 private:
  World* const world_;
  const std::string name_;
  std::map<JobId, seal::JobKeys> keys_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_EAVESDROPPER_H_
