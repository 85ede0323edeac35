#ifndef STRATA_COMMON_SEAL_HANDSHAKE_H_
#define STRATA_COMMON_SEAL_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/seal/secret.h"

struct ssl_st;      // SSL of OpenSSL
struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace strata::seal {

inline constexpr size_t kIdentityBytesMax = 64;
inline constexpr size_t kHandshakeBytesMax = 16 << 10;  // from the peer, in all

// The name under which a listener finds the secret of a job's attempt.
std::string IdentityOf(uint32_t job, uint32_t attempt);
// The secret that connections of this attempt to this listener prove, as both know its address. One
// of another attempt is of no use, nor is one of another listener: who leads a connection elsewhere
// only breaks it.
Secret ConnectionSecret(const Secret& job_secret, uint32_t attempt, absl::string_view listener);

// Proves to both sides that the other knows a secret, and gives both the keys of this connection
// alone: TLS 1.3 (RFC 8446) with an external PSK and X25519 (psk_dhe_ke), so that who learns the
// secret later reads nothing of earlier connections. There are no certificates, tickets or early
// data. Who carries the bytes is the caller's matter: nothing here blocks or knows sockets.
//
// The connecting side speaks first: Take with nothing said. What each Take appends goes to the
// peer's Take, in any pieces. Three flights make both sides done. Holds up to 64 KiB until then.
// Threads: one at a time.
class Handshake {
 public:
  // A listener's data for an identity, and the salt for a peer that shows it.
  struct Known {
    Secret secret;
    Salt own_salt;
  };
  // Nullopt: nobody of that name is here.
  using FindKnown = std::function<std::optional<Known>(absl::string_view identity)>;
  using FindSecret = std::function<std::optional<Secret>(absl::string_view identity)>;

  // Errors: InvalidArgument: the identity is empty or above kIdentityBytesMax. Internal: OpenSSL is
  // set up without what is needed.
  static absl::StatusOr<std::unique_ptr<Handshake>> Connect(std::string identity,
                                                            const Secret& secret,
                                                            const Salt& own_salt);
  // `find` is called within Take. Errors: Internal: as above.
  static absl::StatusOr<std::unique_ptr<Handshake>> Accept(FindKnown find);
  // The salt is the same for all.
  static absl::StatusOr<std::unique_ptr<Handshake>> Accept(FindSecret find, const Salt& own_salt);

  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;
  ~Handshake();

  // Takes the peer's bytes (empty: to begin) and appends the bytes to send to it.
  //
  // Errors, each one line: InvalidArgument: the peer speaks no TLS 1.3, or something else than this
  // handshake, or too much. PermissionDenied: it does not know the secret, or says so of us.
  // Internal: no memory. After an error nothing more is possible, and each Take gives the same one;
  // what tells the peer why is appended all the same.
  absl::Status Take(absl::Span<const std::byte> said, std::string* reply);

  // The peer has proved itself and said its salt. The connecting side is done by the listener's
  // flight, and what it says then makes the listener done. More from the peer is an error after
  // that, such as the reason why a listener does not accept the last flight.
  bool is_done() const { return is_done_ && status_.ok(); }

  // REQUIRES, for all of them: is_done().
  const std::string& identity() const;  // who the connecting side said it is
  const Key& send_key() const;
  const Key& receive_key() const;
  const Salt& peer_salt() const;

 private:
  friend struct HandshakeCallbacks;  // in handshake.cc: what OpenSSL calls

  enum class Step {
    kListen,  // the listener: until its own Finished
    kFinish,  // until the peer's Finished
    kSalt,    // until the peer's salt
  };

  struct FreeTls {
    void operator()(ssl_st* tls) const;
  };

  Handshake(bool is_connecting, const Salt& own_salt);

  // Internal: no memory.
  absl::Status Begin(ssl_ctx_st* context);
  absl::Status Advance();
  absl::Status Listen();
  absl::Status Finish();
  absl::Status ReadSalt();
  absl::Status CheckSession() const;
  absl::Status TakeKeys();
  // OK: the peer has to say more first.
  absl::Status WaitOrFail(int result) const;
  absl::Status Refusal() const;
  absl::Status Fail(absl::Status status);

  const bool is_connecting_;
  Salt own_salt_;
  std::string identity_;
  std::optional<WipedSecret> secret_;  // of the connecting side
  FindKnown find_;                     // of the listener
  bool is_unknown_ = false;            // the listener knows no such identity

  std::unique_ptr<ssl_st, FreeTls> tls_;  // null once done or failed
  Step step_;
  absl::Status status_;
  bool is_done_ = false;
  size_t bytes_taken_ = 0;
  std::string heard_;  // the peer's salt, as far as it is there
  Salt peer_salt_ = {};
  std::optional<WipedSecret> send_key_;
  std::optional<WipedSecret> receive_key_;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_HANDSHAKE_H_
