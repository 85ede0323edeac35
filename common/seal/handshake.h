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
inline constexpr size_t kHandshakeBytesMax = 16 << 10;  // from the peer, in total

// Returns the name under which a listener finds the secret of a job's attempt.
std::string IdentityOf(uint32_t job, uint32_t attempt);
// Returns the secret that connections of this attempt to this listener prove, as both know its
// address. It is useless for another attempt or another listener: redirecting a connection only
// breaks it.
Secret ConnectionSecret(const Secret& job_secret, uint32_t attempt, absl::string_view listener);

// Proves to both sides that the other knows a secret, and gives both the keys of this connection:
// TLS 1.3 (RFC 8446) with an external PSK and X25519 (psk_dhe_ke), so that somebody who learns the
// secret later cannot read earlier connections. There are no certificates, tickets or early data.
// The caller transports the bytes: nothing here blocks or knows sockets.
//
// The connecting side begins: Take with no bytes. What each Take appends goes to the peer's Take,
// in any pieces. After three flights both sides are done. Holds up to 64 KiB until then. Threads:
// one at a time.
class Handshake {
 public:
  // A listener's data for an identity, and the salt for a peer that shows it.
  struct Known {
    Secret secret;
    Salt own_salt;
  };
  // nullopt: unknown identity.
  using FindKnown = std::function<std::optional<Known>(absl::string_view identity)>;
  using FindSecret = std::function<std::optional<Secret>(absl::string_view identity)>;

  // Errors: InvalidArgument: the identity is empty or above kIdentityBytesMax. Internal: OpenSSL
  // lacks required features.
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
  // Errors, one line each: InvalidArgument: the peer does not speak TLS 1.3, or not this handshake,
  // or sends too much. PermissionDenied: it does not know the secret, or says that we do not.
  // Internal: no memory. After an error every Take returns the same error; a message for the peer
  // is appended all the same.
  absl::Status Take(absl::Span<const std::byte> said, std::string* reply);

  // The peer has proved knowledge of the secret and sent its salt. The connecting side is done with
  // the listener's flight, and its reply completes the listener. More from the peer is an error
  // after that, such as the reason why a listener rejects the last flight.
  bool is_done() const { return is_done_ && status_.ok(); }

  // REQUIRES, for all of them: is_done().
  const std::string& identity() const;  // the identity that the connecting side gave
  const Key& send_key() const;
  const Key& receive_key() const;
  const Salt& peer_salt() const;

 private:
  friend struct HandshakeCallbacks;  // in handshake.cc: OpenSSL's callbacks

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
  // OK: more bytes from the peer are needed first.
  absl::Status WaitOrFail(int result) const;
  absl::Status Refusal() const;
  absl::Status Fail(absl::Status status);

  const bool is_connecting_;
  Salt own_salt_;
  std::string identity_;
  std::optional<WipedSecret> secret_;  // of the connecting side
  FindKnown find_;                     // of the listener
  bool is_unknown_ = false;            // the listener does not know the identity

  std::unique_ptr<ssl_st, FreeTls> tls_;  // null once done or failed
  Step step_;
  absl::Status status_;
  bool is_done_ = false;
  size_t bytes_taken_ = 0;
  std::string heard_;  // the peer's salt, as far as received
  Salt peer_salt_ = {};
  std::optional<WipedSecret> send_key_;
  std::optional<WipedSecret> receive_key_;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_HANDSHAKE_H_
