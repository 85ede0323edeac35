#include "common/seal/handshake.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/require.h"
#include "common/seal/secret.h"
#include "common/wire/little_endian.h"

namespace strata::seal {
namespace {

constexpr int kAlert = SSL_AD_REASON_OFFSET;  // the peer's alerts are reason codes from here on

// Returns whether the peer's proof is missing or wrong. Damaged bytes look the same.
bool IsWithoutProof(int reason) {
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
    // A listener without certificates reports this for a peer that shows no PSK.
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
      return true;
    default:
      return false;
  }
}

// Returns whether the peer says that our proof is missing or wrong.
bool IsRefusal(int reason) {
  switch (reason) {
    case kAlert + SSL_AD_BAD_RECORD_MAC:
    case kAlert + SSL_AD_HANDSHAKE_FAILURE:
    case kAlert + SSL_AD_ILLEGAL_PARAMETER:  // OpenSSL's for a wrong binder
    case kAlert + SSL_AD_ACCESS_DENIED:
    case kAlert + SSL_AD_DECRYPT_ERROR:
    case kAlert + SSL_AD_UNKNOWN_PSK_IDENTITY:
      return true;
    default:
      return false;
  }
}

// Returns why OpenSSL ended a handshake, from this thread's error queue, in one line with OpenSSL's
// own words: PermissionDenied: the peer does not know the secret, or says that we do not.
// InvalidArgument: any other error in its messages.
absl::Status HandshakeError() {
  const unsigned long error = ERR_peek_error();  // the first is the cause
  const char* const text = ERR_reason_error_string(error);
  const char* const reason = text == nullptr ? "no reason given" : text;
  const int code = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  if (IsWithoutProof(code)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer does not know the job's secret: ", reason));
  }
  if (IsRefusal(code)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer does not accept our secret: ", reason));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the peer does not shake hands as Strata does: ", reason));
}

// The one suite: TLS_AES_256_GCM_SHA384.
constexpr uint16_t kCipherSuite = 0x1302;

struct FreeTlsContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// Certificates prove nothing here: a peer that shows one does not know the secret.
int RefuseCertificate(X509_STORE_CTX* store, void*) {
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

SSL_CTX* Make(const SSL_METHOD* method) {
  constexpr int kSecurityLevel = 2;  // 112 bits
  constexpr long kCertificateBytesMax = 4 << 10;
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, FreeTlsContext> context(SSL_CTX_new(method));
  const bool is_made = context != nullptr &&
                       SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                       SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                       SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_256_GCM_SHA384") == 1 &&
                       SSL_CTX_set1_groups_list(context.get(), "X25519") == 1 &&
                       SSL_CTX_set_num_tickets(context.get(), 0) == 1 &&
                       SSL_CTX_set_max_early_data(context.get(), 0) == 1 &&
                       SSL_CTX_set_recv_max_early_data(context.get(), 0) == 1;
  ERR_clear_error();
  if (!is_made) return nullptr;
  SSL_CTX_set_security_level(context.get(), kSecurityLevel);
  // The host's openssl.cnf may have allowed the first: a PSK without X25519 has no forward secrecy.
  // The second adds unchecked records for the sake of middleboxes; there are none between.
  SSL_CTX_clear_options(context.get(), SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context.get(), kCertificateBytesMax);
  return context.release();
}

SSL_CTX* MakeConnecting() {
  SSL_CTX* const context = Make(TLS_client_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context, RefuseCertificate, nullptr);
  return context;
}

// The settings that all handshakes of a side share: only TLS 1.3, kCipherSuite and X25519; no
// certificates, tickets, early data or renegotiation. A context is made once in a process and never
// freed; null if OpenSSL is built without one of these. Threads: any.
SSL_CTX* ConnectingContext() {
  static SSL_CTX* const context = MakeConnecting();
  return context;
}

SSL_CTX* ListeningContext() {
  static SSL_CTX* const context = Make(TLS_server_method());
  return context;
}

constexpr absl::string_view kExporterLabel = "EXPORTER-strata-frames";

// Keeps errors that OpenSSL queues before or within its scope from being mistaken for later ones.
class CleanErrorQueue {
 public:
  CleanErrorQueue() { ERR_clear_error(); }
  ~CleanErrorQueue() { ERR_clear_error(); }
  CleanErrorQueue(const CleanErrorQueue&) = delete;
  CleanErrorQueue& operator=(const CleanErrorQueue&) = delete;
};

absl::Status NoMemory() { return absl::InternalError("no memory for a handshake"); }

absl::Status TooMuch() {
  return absl::InvalidArgumentError("the peer says more than belongs to a handshake");
}

// Appends OpenSSL's output for the peer.
void Drain(BIO* out, std::string* reply) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(out, &data);
  if (bytes > 0) reply->append(data, bytes);
  (void)BIO_reset(out);
}

}  // namespace

std::string IdentityOf(uint32_t job, uint32_t attempt) {
  return absl::StrCat("job ", job, " attempt ", attempt);
}

Secret ConnectionSecret(const Secret& job_secret, uint32_t attempt, absl::string_view listener) {
  std::byte encoded[sizeof attempt];
  wire::Put(encoded, attempt);
  const std::string info = absl::StrCat(
      "strata connection",
      absl::string_view(reinterpret_cast<const char*>(encoded), sizeof encoded), listener);
  Secret secret;
  Hkdf(job_secret, {}, info, absl::MakeSpan(secret));
  return secret;
}

// Callbacks of OpenSSL while it reads and writes.
struct HandshakeCallbacks {
  static Handshake* Of(SSL* tls) { return static_cast<Handshake*>(SSL_get_app_data(tls)); }

  // A session in which the secret is the PSK. Null: no memory.
  static SSL_SESSION* NewSession(SSL* tls, const Secret& secret) {
    constexpr unsigned char kSuite[] = {kCipherSuite >> 8, kCipherSuite & 0xff};
    SSL_SESSION* const session = SSL_SESSION_new();
    const SSL_CIPHER* const cipher = SSL_CIPHER_find(tls, kSuite);
    if (session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret.data()),
                                    secret.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }

  static int Use(SSL* tls, const EVP_MD*, const unsigned char** identity, size_t* identity_bytes,
                 SSL_SESSION** session) {
    Handshake* const handshake = Of(tls);
    *identity = reinterpret_cast<const unsigned char*>(handshake->identity_.data());
    *identity_bytes = handshake->identity_.size();
    *session = NewSession(tls, handshake->secret_->get());
    return *session != nullptr ? 1 : 0;
  }

  // Strangers do not learn which identities exist: for an unknown one, their proof is checked
  // against a random secret, and fails like any wrong one.
  static int Find(SSL* tls, const unsigned char* identity, size_t identity_bytes,
                  SSL_SESSION** session) {
    Handshake* const handshake = Of(tls);
    const absl::string_view claimed(reinterpret_cast<const char*>(identity), identity_bytes);
    std::optional<Secret> secret;
    if (!claimed.empty() && claimed.size() <= kIdentityBytesMax) {
      handshake->identity_ = std::string(claimed);
      if (std::optional<Handshake::Known> known = handshake->find_(claimed)) {
        secret = known->secret;
        handshake->own_salt_ = known->own_salt;
        Wipe(&known->secret);
      }
    }
    handshake->is_unknown_ = !secret.has_value();
    if (!secret.has_value()) secret = NewSecret();
    *session = NewSession(tls, *secret);
    Wipe(&*secret);
    return *session != nullptr ? 1 : 0;
  }
};

void Handshake::FreeTls::operator()(ssl_st* tls) const { SSL_free(tls); }

Handshake::Handshake(bool is_connecting, const Salt& own_salt)
    : is_connecting_(is_connecting),
      own_salt_(own_salt),
      step_(is_connecting ? Step::kFinish : Step::kListen) {}

Handshake::~Handshake() = default;

absl::StatusOr<std::unique_ptr<Handshake>> Handshake::Connect(std::string identity,
                                                              const Secret& secret,
                                                              const Salt& own_salt) {
  if (identity.empty() || identity.size() > kIdentityBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("an identity has 1 to ", kIdentityBytesMax, " bytes, not ", identity.size()));
  }
  std::unique_ptr<Handshake> handshake(new Handshake(true, own_salt));
  handshake->identity_ = std::move(identity);
  handshake->secret_.emplace(secret);
  if (absl::Status status = handshake->Begin(ConnectingContext()); !status.ok()) return status;
  SSL_set_psk_use_session_callback(handshake->tls_.get(), HandshakeCallbacks::Use);
  SSL_set_connect_state(handshake->tls_.get());
  return handshake;
}

absl::StatusOr<std::unique_ptr<Handshake>> Handshake::Accept(FindSecret find,
                                                             const Salt& own_salt) {
  return Accept(
      [find = std::move(find), own_salt](absl::string_view identity) -> std::optional<Known> {
        std::optional<Secret> secret = find(identity);
        if (!secret.has_value()) return std::nullopt;
        const Known known{*secret, own_salt};
        Wipe(&*secret);
        return known;
      });
}

absl::StatusOr<std::unique_ptr<Handshake>> Handshake::Accept(FindKnown find) {
  std::unique_ptr<Handshake> handshake(new Handshake(false, Salt()));
  handshake->find_ = std::move(find);
  if (absl::Status status = handshake->Begin(ListeningContext()); !status.ok()) return status;
  SSL_set_psk_find_session_callback(handshake->tls_.get(), HandshakeCallbacks::Find);
  SSL_set_accept_state(handshake->tls_.get());
  return handshake;
}

absl::Status Handshake::Begin(ssl_ctx_st* context) {
  if (context == nullptr) {
    return absl::InternalError(
        "OpenSSL is set up without TLS 1.3, AES-256-GCM or X25519: see openssl.cnf");
  }
  const CleanErrorQueue clean;
  tls_.reset(SSL_new(context));
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  if (tls_ == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return NoMemory();
  }
  SSL_set_bio(tls_.get(), in, out);
  SSL_set_app_data(tls_.get(), this);
  return absl::OkStatus();
}

absl::Status Handshake::Take(absl::Span<const std::byte> said, std::string* reply) {
  if (!status_.ok()) return status_;
  if (is_done_) return said.empty() ? absl::OkStatus() : Fail(TooMuch());
  if (said.size() > kHandshakeBytesMax - bytes_taken_) return Fail(TooMuch());
  bytes_taken_ += said.size();
  const CleanErrorQueue clean;
  if (!said.empty() && BIO_write(SSL_get_rbio(tls_.get()), said.data(),
                                 static_cast<int>(said.size())) != static_cast<int>(said.size())) {
    return Fail(NoMemory());
  }
  absl::Status status = Advance();
  Drain(SSL_get_wbio(tls_.get()), reply);
  if (!status.ok()) return Fail(std::move(status));
  if (is_done_) tls_.reset();
  return absl::OkStatus();
}

absl::Status Handshake::Fail(absl::Status status) {
  status_ = std::move(status);
  tls_.reset();
  secret_.reset();
  send_key_.reset();
  receive_key_.reset();
  return status_;
}

absl::Status Handshake::Advance() {
  absl::Status status;
  if (step_ == Step::kListen) status = Listen();
  if (status.ok() && step_ == Step::kFinish) status = Finish();
  if (status.ok() && step_ == Step::kSalt) status = ReadSalt();
  return status;
}

// The listener sends its salt right after its own Finished, which saves a round trip: the PSK's
// binder has proved by then that the peer knows the secret, or replays one who does, and the salt
// is not secret. OpenSSL lets a server write so early only with its functions for early data; none
// is accepted.
absl::Status Handshake::Listen() {
  char unused = 0;
  size_t bytes = 0;
  switch (SSL_read_early_data(tls_.get(), &unused, sizeof unused, &bytes)) {
    case SSL_READ_EARLY_DATA_ERROR:
      return WaitOrFail(0);
    case SSL_READ_EARLY_DATA_SUCCESS:
      return TooMuch();
    default:
      break;
  }
  if (SSL_write_early_data(tls_.get(), own_salt_.data(), own_salt_.size(), &bytes) != 1) {
    return Refusal();
  }
  step_ = Step::kFinish;
  return absl::OkStatus();
}

absl::Status Handshake::Finish() {
  const int result = SSL_do_handshake(tls_.get());
  if (result != 1) return WaitOrFail(result);
  if (absl::Status status = CheckSession(); !status.ok()) return status;
  size_t bytes = 0;
  if (is_connecting_ && SSL_write_ex(tls_.get(), own_salt_.data(), own_salt_.size(), &bytes) != 1) {
    return Refusal();
  }
  step_ = Step::kSalt;
  return absl::OkStatus();
}

absl::Status Handshake::CheckSession() const {
  SSL* const tls = tls_.get();
  // OpenSSL treats a PSK as a resumed session.
  if (SSL_session_reused(tls) != 1 || SSL_get0_peer_certificate(tls) != nullptr) {
    return absl::PermissionDeniedError(
        "the peer does not know the job's secret: it wants to do without");
  }
  const bool is_agreed = SSL_version(tls) == TLS1_3_VERSION &&
                         SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(tls)) == kCipherSuite &&
                         SSL_get_negotiated_group(tls) == NID_X25519;
  if (!is_agreed) {
    return absl::InvalidArgumentError(
        "the peer does not shake hands as Strata does: it wants another cipher");
  }
  return absl::OkStatus();
}

absl::Status Handshake::ReadSalt() {
  for (;;) {
    char block[kSaltBytes + 1];
    size_t bytes = 0;
    const int result = SSL_read_ex(tls_.get(), block, sizeof block, &bytes);
    if (result != 1) {
      if (absl::Status status = WaitOrFail(result); !status.ok()) return status;
      break;
    }
    heard_.append(block, bytes);
    if (heard_.size() > kSaltBytes) return TooMuch();
  }
  if (heard_.size() < kSaltBytes) return absl::OkStatus();
  if (SSL_has_pending(tls_.get()) != 0 || BIO_pending(SSL_get_rbio(tls_.get())) != 0) {
    return TooMuch();
  }
  std::memcpy(peer_salt_.data(), heard_.data(), kSaltBytes);
  return TakeKeys();
}

absl::Status Handshake::TakeKeys() {
  unsigned char both[2 * kKeyBytes];
  STRATA_REQUIRE(SSL_export_keying_material(tls_.get(), both, sizeof both, kExporterLabel.data(),
                                            kExporterLabel.size(), nullptr, 0, 0) == 1);
  Key from_connecting, from_listener;
  std::memcpy(from_connecting.data(), both, kKeyBytes);
  std::memcpy(from_listener.data(), both + kKeyBytes, kKeyBytes);
  OPENSSL_cleanse(both, sizeof both);
  send_key_.emplace(is_connecting_ ? from_connecting : from_listener);
  receive_key_.emplace(is_connecting_ ? from_listener : from_connecting);
  Wipe(&from_connecting);
  Wipe(&from_listener);
  secret_.reset();
  find_ = nullptr;
  is_done_ = true;
  return absl::OkStatus();
}

absl::Status Handshake::WaitOrFail(int result) const {
  return SSL_get_error(tls_.get(), result) == SSL_ERROR_WANT_READ ? absl::OkStatus() : Refusal();
}

absl::Status Handshake::Refusal() const {
  absl::Status error = HandshakeError();
  if (is_unknown_ && absl::IsPermissionDenied(error)) {
    return absl::PermissionDeniedError(
        identity_.empty() ? std::string("nobody has the identity that the peer claims")
                          : absl::StrCat("nobody here has the identity \"",
                                         absl::CHexEscape(identity_), "\" that the peer claims"));
  }
  return error;
}

const std::string& Handshake::identity() const {
  STRATA_REQUIRE(is_done());
  return identity_;
}

const Key& Handshake::send_key() const {
  STRATA_REQUIRE(is_done());
  return send_key_->get();
}

const Key& Handshake::receive_key() const {
  STRATA_REQUIRE(is_done());
  return receive_key_->get();
}

const Salt& Handshake::peer_salt() const {
  STRATA_REQUIRE(is_done());
  return peer_salt_;
}

}  // namespace strata::seal
