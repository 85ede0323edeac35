#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/seal/handshake.h"
#include "common/seal/seal.h"
#include "common/transport/endpoint.h"
#include "common/transport/sealed_endpoint.h"
#include "common/wire/frame.h"
#include "tests/fuzz/check.h"

// A sealed endpoint of one job, whatever its peers say and in whatever order: who does not know the
// secret is never heard and hears nothing, and of a peer who knows it what is handed up is what it
// has sent, from the first frame on, however its frames are changed on the way.
//
// Input: a byte that says who the peers are: 's' and 'n' strangers, at an endpoint that also takes
// plain frames of other jobs, or none; 'g' and 'e' a peer with the secret, whose payloads are
// signed or encrypted. Then one command after the other: a byte that says which, and what it needs.

namespace strata::transport {

// The input of sealed_endpoint_fuzz, decoded.

inline constexpr JobId kJob(7);
inline constexpr char kAddress[] = "tcp://127.0.0.1:500";

// Bytes, one after the other; zeros at the end.
class Input {
 public:
  explicit Input(absl::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    const std::string byte = Text(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  std::string Text(size_t size) {
    const std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(text.size());
    return text;
  }

 private:
  absl::string_view bytes_;
};

// A secret that consists of this one byte.
inline seal::JobKeys Keys(char secret, seal::Protection protection = seal::Protection::kEncrypt) {
  seal::JobKeys keys;
  keys.protection = protection;
  keys.secret.fill(static_cast<std::byte>(secret));
  keys.own_address = kAddress;
  return keys;
}

// A copy. `writable`: where it may be changed.
inline Bytes BytesOf(const std::string& text, std::byte** writable = nullptr) {
  const auto bytes = std::make_shared<std::string>(text);
  auto* const data = reinterpret_cast<std::byte*>(bytes->data());
  if (writable != nullptr && !text.empty()) *writable = data;
  return Bytes(bytes, data, bytes->size());
}

inline absl::Span<const std::byte> SpanOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string TextOf(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

inline wire::Frame FrameOf(wire::Op op, JobId job, const std::string& text) {
  wire::Frame frame;
  frame.header.op = op;
  frame.header.job = job.value();
  frame.header.element_count = static_cast<uint32_t>(text.size() / sizeof(float));
  if (!text.empty()) frame.payload = BytesOf(text);
  return frame;
}

inline wire::Op AnyOp(uint8_t byte) { return static_cast<wire::Op>(1 + byte % 20); }

// One line, in which the secret is not.
inline void CheckError(const absl::Status& status) {
  FUZZ_CHECK(!status.ok() && !status.message().empty());
  for (const char c : status.message()) FUZZ_CHECK(c >= ' ' && c <= '~');
  FUZZ_CHECK(!absl::StrContains(status.message(), "ssssssss"));
}

// An endpoint whose network is what a fuzz target says. It keeps to the contract of Endpoint: no
// event comes of a connection that is over.
class ScriptedEndpoint final : public Endpoint {
 public:
  struct Sent {
    ConnectionId connection;
    wire::Frame frame;
  };

  // Opens a connection from a peer, or to one.
  ConnectionId NewConnection() { return ConnectionId(++last_id_); }
  bool IsOpen(ConnectionId id) const {
    return std::find(ended_.begin(), ended_.end(), id) == ended_.end();
  }
  // Queues an event for the next Poll.
  void Add(Event event) {
    if (!IsOpen(event.connection)) return;
    if (event.kind == Event::Kind::kDisconnected) ended_.push_back(event.connection);
    coming_.push_back(std::move(event));
  }
  std::deque<Sent>& sent() { return sent_; }
  void set_is_full(bool is_full) { is_full_ = is_full; }
  // True if payloads go by reference, where they may.
  void set_refers(bool refers) { refers_ = refers; }

  absl::StatusOr<int> Listen(const std::string& /*address*/) override { return 500; }
  absl::StatusOr<ConnectionId> Connect(const std::string& /*address*/) override {
    return NewConnection();
  }
  absl::Status Send(ConnectionId id, const wire::Frame& frame) override {
    if (!IsOpen(id)) return absl::NotFoundError("no such connection");
    if (is_full_) return absl::ResourceExhaustedError("the queue is full");
    if (frame.by_reference && !refers_) return absl::FailedPreconditionError("not by reference");
    sent_.push_back({id, frame});
    return absl::OkStatus();
  }
  void Poll(absl::Duration /*timeout*/, std::vector<Event>* events) override {
    for (Event& event : std::exchange(coming_, {})) events->push_back(std::move(event));
  }
  void WatchFd(int /*fd*/) override {}
  bool Refers(ConnectionId /*connection*/) const override { return refers_; }
  void Close(ConnectionId id) override {
    ended_.push_back(id);
    const auto is_of_it = [id](const Event& event) { return event.connection == id; };
    coming_.erase(std::remove_if(coming_.begin(), coming_.end(), is_of_it), coming_.end());
  }
  void Wake() override {}

 private:
  uint64_t last_id_ = 0;
  bool is_full_ = false, refers_ = false;
  std::vector<ConnectionId> ended_;
  std::vector<Event> coming_;
  std::deque<Sent> sent_;
};

namespace {

using Kind = Event::Kind;
using Unsealed = SealedEndpoint::Unsealed;

constexpr char kWeights[] = "weights that nobody reads but who has the secret";
constexpr int kCommandsMax = 200;  // a handshake takes a millisecond

// Peers that do not know the secret. Some speak TLS as they should, with another one.
class Strangers {
 public:
  explicit Strangers(Unsealed takes) : takes_(takes) {
    auto inner = std::make_unique<ScriptedEndpoint>();
    inner_ = inner.get();
    endpoint_ = std::make_unique<SealedEndpoint>(std::move(inner), takes);
    FUZZ_CHECK(endpoint_->Protect(kJob, Keys('s')).ok());
    for (Peer& peer : peers_) peer.id = inner_->NewConnection();
  }

  void Run(Input* input) {
    for (int i = 0; i < kCommandsMax && !input->empty(); ++i) {
      const uint8_t what = input->Byte();
      Do(what % 8, &peers_[what / 8 % peers_.size()], input);
      CheckSent();
    }
    Poll();
  }

 private:
  struct Peer {
    ConnectionId id;
    bool is_connected_to = false;
    std::unique_ptr<seal::Handshake> handshake;  // with another secret
    std::string heard;                           // of the handshake
  };

  void Do(int what, Peer* peer, Input* input) {
    if (!inner_->IsOpen(peer->id)) *peer = {.id = inner_->NewConnection()};
    Event event;
    event.connection = peer->id;
    switch (what) {
      case 0:
        event.frame = AnyFrame(input);
        return inner_->Add(std::move(event));
      case 1:
        return Flight(peer, input->Byte());
      case 2:
        event.kind = Kind::kDisconnected;
        event.error = absl::UnavailableError("gone");
        return inner_->Add(std::move(event));
      case 3:
        event.kind = Kind::kMalformed;
        event.error = absl::InvalidArgumentError("no frame");
        return inner_->Add(std::move(event));
      case 4: {
        const wire::Frame weights = FrameOf(wire::Op::kAnswer, kJob, kWeights);
        (void)endpoint_->Send(peer->id, weights);
        return;
      }
      case 5:
        ended_.insert(peer->id);
        return input->Byte() % 2 == 0 ? endpoint_->Close(peer->id) : endpoint_->Cut(peer->id);
      case 6:
        endpoint_->Close(peer->id);
        ended_.insert(peer->id);
        *peer = {.id = *endpoint_->Connect(kAddress), .is_connected_to = true};
        return;
      default:
        inner_->set_is_full(input->Byte() % 4 == 0);
        return Poll();
    }
  }

  static wire::Frame AnyFrame(Input* input) {
    const wire::Op op = AnyOp(input->Byte());
    const uint8_t how = input->Byte();
    wire::Frame frame =
        FrameOf(op, how % 2 == 0 ? kJob : JobId(8), input->Text(input->Byte() * size_t{4}));
    frame.header.incarnation = how;
    frame.by_reference = how % 8 == 3;
    if (how % 4 >= 2) {
      const std::string seal = input->Text(wire::kSealBytes);
      std::array<std::byte, wire::kSealBytes>& bytes = frame.seal.emplace();
      std::copy(SpanOf(seal).begin(), SpanOf(seal).end(), bytes.begin());
    }
    return frame;
  }

  // What TLS says next to all that was heard, with one byte changed.
  void Flight(Peer* peer, uint8_t change) {
    const std::string identity = seal::IdentityOf(kJob.value(), 0);
    const seal::Secret secret = seal::ConnectionSecret(Keys('t').secret, 0, kAddress);
    if (peer->handshake == nullptr && peer->is_connected_to) {
      const auto find = [&](absl::string_view) { return std::optional(secret); };
      peer->handshake = *seal::Handshake::Accept(find, seal::Salt{});
    } else if (peer->handshake == nullptr) {
      peer->handshake = *seal::Handshake::Connect(identity, secret, seal::Salt{});
    }
    std::string said;
    (void)peer->handshake->Take(SpanOf(std::exchange(peer->heard, "")), &said);
    FUZZ_CHECK(!peer->handshake->is_done());
    if (!said.empty() && change > 0) said[change % said.size()] ^= static_cast<char>(change);
    Event event;
    event.connection = peer->id;
    event.frame = FrameOf(wire::Op::kHandshake, kJob, said);
    inner_->Add(std::move(event));
  }

  // Nobody is told anything but handshakes.
  void CheckSent() {
    for (const ScriptedEndpoint::Sent& sent : inner_->sent()) {
      FUZZ_CHECK(sent.frame.header.op == wire::Op::kHandshake);
      const std::string text = TextOf(sent.frame.payload);
      FUZZ_CHECK(!absl::StrContains(text, "weights"));
      for (Peer& peer : peers_) {
        if (peer.id == sent.connection) peer.heard += text;
      }
    }
    inner_->sent().clear();
  }

  void Poll() {
    std::vector<Event> events;
    endpoint_->Poll(absl::ZeroDuration(), &events);
    for (const Event& event : events) {
      FUZZ_CHECK(ended_.count(event.connection) == 0);
      if (event.kind == Kind::kFrame) {
        FUZZ_CHECK(event.frame.header.job != kJob.value() && takes_ == Unsealed::kOfOtherJobs);
        FUZZ_CHECK(!event.frame.seal);
        continue;
      }
      CheckError(event.error);
      if (event.kind == Kind::kDisconnected) ended_.insert(event.connection);
    }
  }

  const Unsealed takes_;
  ScriptedEndpoint* inner_ = nullptr;
  std::unique_ptr<SealedEndpoint> endpoint_;
  std::array<Peer, 4> peers_;
  std::set<ConnectionId> ended_;
};

// What seals keep as it is.
bool AreSame(wire::Header sent, wire::Header taken) {
  for (wire::Header* header : {&sent, &taken}) {
    header->payload_kind = wire::PayloadKind::kInline;
    header->payload_checksum = 0;
  }
  return sent == taken;
}

void ChangeHeader(uint8_t field, uint8_t by, wire::Header* header) {
  if (field % 10 == 0) header->op = AnyOp(by);
  if (field % 10 == 1) header->flags ^= by % 4;
  if (field % 10 == 2) header->job ^= by;
  if (field % 10 == 3) header->view ^= by;
  if (field % 10 == 4) header->chunk ^= by;
  if (field % 10 == 5) header->incarnation ^= by;
  if (field % 10 == 6) header->clock ^= by;
  if (field % 10 == 7) header->version ^= by;
  if (field % 10 == 8) header->element_count ^= by;
  if (field % 10 == 9) header->sample_count ^= by;
}

// Two peers who know the secret, and somebody on the way.
class Peers {
 public:
  explicit Peers(seal::Protection protection) {
    for (Side& side : sides_) {
      auto inner = std::make_unique<ScriptedEndpoint>();
      side.inner = inner.get();
      side.endpoint = std::make_unique<SealedEndpoint>(std::move(inner), Unsealed::kNone);
      FUZZ_CHECK(side.endpoint->Protect(kJob, Keys('s', protection)).ok());
    }
    Connect();
  }

  void Run(Input* input) {
    for (int i = 0; i < kCommandsMax && !input->empty(); ++i) {
      const uint8_t what = input->Byte();
      Do(what % 10, what / 10 % 2, input);
    }
    Settle();
    for (const size_t at : {0, 1}) {
      FUZZ_CHECK(is_disturbed_ || sides_[at].taken == sides_[1 - at].sent.size());
    }
  }

 private:
  struct Side {
    ScriptedEndpoint* inner = nullptr;
    std::unique_ptr<SealedEndpoint> endpoint;
    ConnectionId line;
    std::vector<wire::Frame> sent;  // over this connection
    size_t taken = 0;               // of what the other has sent
    bool has_ended = false;
  };

  // The first side connects to the second.
  void Connect() {
    is_disturbed_ = false;
    for (Side& side : sides_) {
      side.endpoint->Close(side.line);
      side.inner->sent().clear();
      side = {.inner = side.inner, .endpoint = std::move(side.endpoint)};
    }
    sides_[0].line = *sides_[0].endpoint->Connect(kAddress);
    sides_[1].line = sides_[1].inner->NewConnection();
  }

  void Do(int what, size_t from, Input* input) {
    std::deque<ScriptedEndpoint::Sent>& under_way = sides_[from].inner->sent();
    if (what == 0) return Say(&sides_[from], input);
    if (what == 1) return sides_[from].inner->set_is_full(input->Byte() % 4 == 0);
    if (what == 2) return sides_[from].inner->set_refers(input->Byte() % 2 == 0);
    if (what == 3) return Poll();
    if (what == 4) return Settle();
    if (what == 5) return input->Byte() % 8 == 0 ? Connect() : Poll();
    if (under_way.empty()) return;
    ScriptedEndpoint::Sent first = under_way.front();
    if (what == 6) return Pass(from, /*is_writable=*/input->Byte() % 2 == 0);
    is_disturbed_ = true;
    under_way.pop_front();
    if (what == 7) {  // more than once, or not at all
      for (int times = input->Byte() % 3; times > 0; --times) under_way.push_front(first);
    } else if (what == 8) {  // later than others
      under_way.push_back(std::move(first));
    } else {
      Change(input, &first.frame);
      under_way.push_front(std::move(first));
    }
  }

  static void Say(Side* side, Input* input) {
    const uint8_t size = input->Byte();
    wire::Frame frame = FrameOf(AnyOp(input->Byte()), kJob,
                                std::string(4 * size + (size % 16 == 1 ? 4096 : 0), 'w'));
    // Handshakes are the endpoint's own, and refusals may be said to strangers, without a seal.
    using wire::Op;
    for (const Op other : {Op::kHandshake, Op::kError, Op::kRetry}) {
      if (frame.header.op == other) frame.header.op = Op::kPushPull;
    }
    frame.header.clock = side->sent.size();
    if (side->endpoint->Send(side->line, frame).ok()) side->sent.push_back(std::move(frame));
  }

  static void Change(Input* input, wire::Frame* frame) {
    const uint8_t what = input->Byte(), place = input->Byte(), by = input->Byte();
    // What lies in shared memory is not on the way.
    const bool has_bytes = !frame->payload.empty() && !frame->by_reference;
    if (what % 5 == 0) ChangeHeader(place, by, &frame->header);
    if (what % 5 == 1 && frame->seal) (*frame->seal)[place % wire::kSealBytes] ^= std::byte{by};
    if (what % 5 == 2 && has_bytes) {
      std::string text = TextOf(frame->payload);
      text[place % text.size()] ^= static_cast<char>(by);
      frame->payload = BytesOf(text);
    }
    if (what % 5 == 3 && has_bytes) {
      frame->payload = frame->payload.Part(0, frame->payload.size() / 8 * 4);
    }
    if (what % 5 == 4) by % 2 == 0 ? frame->seal.reset() : (void)(frame->by_reference ^= true);
  }

  void Pass(size_t from, bool is_writable) {
    std::deque<ScriptedEndpoint::Sent>& under_way = sides_[from].inner->sent();
    Side& to = sides_[1 - from];
    Event event;
    event.connection = to.line;
    event.frame = under_way.front().frame;
    under_way.pop_front();
    std::byte** const writable = is_writable ? &event.frame.writable : nullptr;
    if (!event.frame.by_reference) {
      event.frame.payload = BytesOf(TextOf(event.frame.payload), writable);
    }
    to.inner->Add(std::move(event));
  }

  void Settle() {
    for (Side& side : sides_) side.inner->set_is_full(false);
    for (int i = 0; i < 3; ++i) {
      for (const size_t from : {0, 1}) {
        while (!sides_[from].inner->sent().empty()) Pass(from, i % 2 == 0);
        Poll();
      }
    }
  }

  void Poll() {
    for (const size_t at : {0, 1}) {
      std::vector<Event> events;
      sides_[at].endpoint->Poll(absl::ZeroDuration(), &events);
      for (const Event& event : events) OnEvent(event, &sides_[at], sides_[1 - at]);
    }
  }

  static void OnEvent(const Event& event, Side* side, const Side& peer) {
    FUZZ_CHECK(event.connection == side->line && !side->has_ended);
    if (event.kind != Kind::kFrame) {
      CheckError(event.error);
      side->has_ended = event.kind == Kind::kDisconnected;
      return;
    }
    FUZZ_CHECK(side->taken < peer.sent.size());
    const wire::Frame& sent = peer.sent[side->taken++];
    FUZZ_CHECK(AreSame(sent.header, event.frame.header));
    FUZZ_CHECK(TextOf(sent.payload) == TextOf(event.frame.payload));
    FUZZ_CHECK(!event.frame.seal);
  }

  std::array<Side, 2> sides_;
  bool is_disturbed_ = false;  // over this connection
};

void Fuzz(char kind, Input input) {
  if (kind == 's') Strangers(Unsealed::kOfOtherJobs).Run(&input);
  if (kind == 'n') Strangers(Unsealed::kNone).Run(&input);
  if (kind == 'g') Peers(seal::Protection::kSign).Run(&input);
  if (kind == 'e') Peers(seal::Protection::kEncrypt).Run(&input);
  // Nothing is left for others to take for their own error.
  FUZZ_CHECK(ERR_peek_error() == 0);
}

}  // namespace

}  // namespace strata::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::transport::Fuzz(
      static_cast<char>(data[0]),
      strata::transport::Input({reinterpret_cast<const char*>(data) + 1, size - 1}));
  return 0;
}
