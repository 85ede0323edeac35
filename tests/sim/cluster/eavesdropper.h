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

// An attacker who hears all frames and replays how connections begin, including handshake and
// HELLO, over connections of its own, unchanged or modified. Only in runs whose jobs are all
// sealed: elsewhere it would evict nodes.
//
// It also checks the invariants of seals, because it hears everything: no number stands for two
// payloads of one sender, frames are received as they were sent, no frame of the attacker is
// accepted, and no connection over which a frame was accepted ends because of it.
class Eavesdropper {
 public:
  explicit Eavesdropper(World* world);

  // The sealer of the job's payloads at this endpoint restarts with another salt.
  void OnSalt(const std::string& endpoint, uint32_t job);
  // What the network does to a connection, seen from either end.
  void OnNote(transport::SimNote note, transport::ConnectionId connection);
  // A sealed endpoint has delivered a frame to its owner. `is_protected`: it knows the job's
  // secret.
  void OnTaken(transport::ConnectionId connection, const wire::Frame& frame, bool is_protected);
  // A sealed endpoint has reported the end of a connection to its owner.
  void OnEnded(transport::ConnectionId connection);

 private:
  // The first frames of a connection to an address.
  struct Beginning {
    std::string address;
    std::vector<wire::Frame> frames;
  };
  using EncodedHeader = std::array<std::byte, wire::kHeaderBytes>;
  // The frames from one end of a connection.
  struct Heard {
    std::string sender;
    Beginning beginning;                  // of the connecting end
    uint64_t salt = 0;                    // of its payloads; 0: no payload was sealed yet
    std::deque<EncodedHeader> under_way;  // of sealed frames in flight
    bool was_taken = false;               // a sealed frame was accepted
  };
  // How it replays a connection.
  enum class Way {
    kWhole,        // all that was heard
    kUnproven,     // the handshake's first flight, then frames as if it were complete
    kNoHandshake,  // sealed frames alone
    kForged,       // frames without their seals, of the sender's next process
  };
  static constexpr uint64_t kWays = 4;

  void OnSent(const transport::SimEndpoint& from, const std::string& address,
              transport::ConnectionId connection, const wire::Frame& frame);
  // Returns the part of the header that the seal protects.
  static EncodedHeader SealedPart(const wire::Frame& frame);
  void CheckNumber(uint64_t salt, const wire::Frame& frame);
  void Repeat(const Beginning& heard, Way way);

  World* const world_;
  std::map<transport::ConnectionId, Heard> heard_;  // by the sender's end
  std::set<transport::ConnectionId> own_;
  std::set<uint64_t> disturbed_;  // connections, by half the id of their ends
  uint64_t last_salt_ = 0;
  std::map<std::pair<std::string, uint32_t>, uint64_t> salts_;  // by endpoint and job
  // By salt and number: the tag of the only payload with that number.
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, seal::Tag> numbers_;
  transport::SimEndpoint endpoint_;
};

class World;

// A process's sealed endpoint. It tells the eavesdropper what it cannot hear: which frames are
// delivered to the owner, and when payloads get another salt.
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
