#include "common/seal/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/hex.h"

namespace strata::seal {
namespace {

using ::testing::HasSubstr;

constexpr absl::string_view kHandshakeIdentity = "job 7 attempt 1";

const Secret& HandshakeJobSecret() {
  static const Secret secret = NewSecret();
  return secret;
}

std::optional<Secret> FindJob(absl::string_view identity) {
  if (identity != kHandshakeIdentity) return std::nullopt;
  return HandshakeJobSecret();
}

Salt SaltOf(int fill) {
  Salt salt;
  salt.fill(static_cast<std::byte>(fill));
  return salt;
}

std::unique_ptr<Handshake> HandshakeConnecting(absl::string_view identity = kHandshakeIdentity,
                                               const Secret& secret = HandshakeJobSecret()) {
  return *Handshake::Connect(std::string(identity), secret, SaltOf(1));
}

std::unique_ptr<Handshake> HandshakeListening() { return *Handshake::Accept(FindJob, SaltOf(2)); }

// The bytes of a whole handshake by flight; the connecting side begins.
struct Spoken {
  std::vector<std::string> flights;
  absl::Status connecting, listening;
};

// Changes a flight in transit.
using Change = std::function<void(size_t flight, std::string* said)>;

Spoken Talk(Handshake& connecting, Handshake& listening, const Change& change = nullptr) {
  Spoken spoken;
  std::string said;
  spoken.connecting = connecting.Take({}, &said);
  while (!said.empty() && spoken.flights.size() < 10) {
    const bool to_listener = spoken.flights.size() % 2 == 0;
    if (change != nullptr) change(spoken.flights.size(), &said);
    spoken.flights.push_back(said);
    std::string reply;
    absl::Status& status = to_listener ? spoken.listening : spoken.connecting;
    absl::Status taken = (to_listener ? listening : connecting).Take(AsBytes(said), &reply);
    status.Update(taken);
    said = reply;
  }
  return spoken;
}

void ExpectRefused(const absl::Status& status, absl::StatusCode code, absl::string_view why) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(status.message(), HasSubstr(std::string(why)));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

void ExpectDenied(const absl::Status& status, absl::string_view why) {
  ExpectRefused(status, absl::StatusCode::kPermissionDenied, why);
}

void ExpectInvalid(const absl::Status& status, absl::string_view why) {
  ExpectRefused(status, absl::StatusCode::kInvalidArgument, why);
}

bool HaveTheSameKeys(const Handshake& left, const Handshake& right) {
  return left.is_done() && right.is_done() && left.send_key() == right.receive_key() &&
         left.receive_key() == right.send_key();
}

TEST(Handshake, GivesBothSidesTheKeysOfThisConnectionAlone) {
  std::vector<Key> keys;
  for (int i = 0; i < 3; ++i) {
    const auto connecting = HandshakeConnecting();
    const auto listening = HandshakeListening();
    const Spoken spoken = Talk(*connecting, *listening);
    EXPECT_EQ(spoken.connecting, absl::OkStatus());
    EXPECT_EQ(spoken.listening, absl::OkStatus());
    EXPECT_EQ(spoken.flights.size(), 3u);
    ASSERT_TRUE(HaveTheSameKeys(*connecting, *listening));
    EXPECT_EQ(connecting->peer_salt(), SaltOf(2));
    EXPECT_EQ(listening->peer_salt(), SaltOf(1));
    EXPECT_EQ(connecting->identity(), kHandshakeIdentity);
    EXPECT_EQ(listening->identity(), kHandshakeIdentity);
    keys.push_back(connecting->send_key());
    keys.push_back(connecting->receive_key());
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(keys[i], keys[k]);
  }
}

TEST(Handshake, TheListenerIsDoneOnlyWhenThePeerHasProvedItself) {
  const auto connecting = HandshakeConnecting();
  const auto listening = HandshakeListening();
  std::string hello, answer, last, nothing;
  ASSERT_TRUE(connecting->Take({}, &hello).ok());
  ASSERT_TRUE(listening->Take(AsBytes(hello), &answer).ok());
  EXPECT_FALSE(listening->is_done());
  EXPECT_DEATH(listening->send_key(), "requirement failed");
  EXPECT_DEATH(listening->identity(), "requirement failed");
  ASSERT_TRUE(connecting->Take(AsBytes(answer), &last).ok());
  EXPECT_TRUE(connecting->is_done());
  ASSERT_TRUE(listening->Take(AsBytes(last), &nothing).ok());
  EXPECT_TRUE(listening->is_done());
  EXPECT_EQ(nothing, "");
}

TEST(Handshake, PiecesOfOneByteAreEnough) {
  const auto connecting = HandshakeConnecting();
  const auto listening = HandshakeListening();
  std::string to_listener, to_connecting;
  ASSERT_TRUE(connecting->Take({}, &to_listener).ok());
  for (size_t i = 0, k = 0; i < to_listener.size() || k < to_connecting.size();) {
    if (i < to_listener.size()) {
      ASSERT_TRUE(listening->Take(AsBytes(to_listener.substr(i++, 1)), &to_connecting).ok());
    } else {
      ASSERT_TRUE(connecting->Take(AsBytes(to_connecting.substr(k++, 1)), &to_listener).ok());
    }
  }
  EXPECT_TRUE(HaveTheSameKeys(*connecting, *listening));
}

TEST(Handshake, AWrongSecretIsRefusedByBoth) {
  const auto connecting = HandshakeConnecting(kHandshakeIdentity, NewSecret());
  const auto listening = HandshakeListening();
  const Spoken spoken = Talk(*connecting, *listening);
  ExpectDenied(spoken.listening, "does not know the job's secret: binder does not verify");
  ExpectDenied(spoken.connecting, "does not accept our secret");
  EXPECT_FALSE(connecting->is_done() || listening->is_done());
}

TEST(Handshake, AnUnknownIdentityLooksToThePeerAsAWrongSecret) {
  const auto wrong = HandshakeConnecting(kHandshakeIdentity, NewSecret());
  const auto to_wrong = HandshakeListening();
  const Spoken wrong_secret = Talk(*wrong, *to_wrong);
  const auto unknown = HandshakeConnecting("job 8 \n");
  const auto to_unknown = HandshakeListening();
  const Spoken spoken = Talk(*unknown, *to_unknown);
  ExpectDenied(spoken.listening, "nobody here has the identity \"job 8 \\n\"");
  EXPECT_EQ(spoken.connecting, wrong_secret.connecting);
  EXPECT_EQ(spoken.flights.back(), wrong_secret.flights.back());
}

TEST(Handshake, AnotherSecretOfTheListenerIsRefusedByBoth) {
  const auto connecting = HandshakeConnecting();
  const auto listening =
      *Handshake::Accept([](absl::string_view) { return NewSecret(); }, SaltOf(2));
  const Spoken spoken = Talk(*connecting, *listening);
  ExpectDenied(spoken.listening, "binder does not verify");
  ExpectDenied(spoken.connecting, "does not accept our secret");
}

TEST(Handshake, AFailedOneStaysFailed) {
  const auto connecting = HandshakeConnecting(kHandshakeIdentity, NewSecret());
  const auto listening = HandshakeListening();
  const Spoken failed = Talk(*connecting, *listening);
  const auto good = HandshakeConnecting();
  std::string hello, reply;
  ASSERT_TRUE(good->Take({}, &hello).ok());
  EXPECT_EQ(listening->Take(AsBytes(hello), &reply), failed.listening);
  EXPECT_EQ(listening->Take({}, &reply), failed.listening);
  EXPECT_EQ(connecting->Take({}, &reply), failed.connecting);
  EXPECT_EQ(reply, "");
}

// RFC 8446, 5.1: the version of a record "MUST be ignored for all purposes". Only its second byte
// is, in the first record of a flight; it changes nothing.
bool IsIgnored(size_t flight, size_t at) { return flight < 2 && at == 2; }

TEST(Handshake, AChangedByteAnywhereLeavesNoTwoSidesDone) {
  const auto plain_connecting = HandshakeConnecting();
  const auto plain_listening = HandshakeListening();
  const std::vector<std::string> flights = Talk(*plain_connecting, *plain_listening).flights;
  ASSERT_EQ(flights.size(), 3u);
  for (size_t flight = 0; flight < flights.size(); ++flight) {
    for (size_t at = 0; at < flights[flight].size(); ++at) {
      const auto connecting = HandshakeConnecting();
      const auto listening = HandshakeListening();
      Talk(*connecting, *listening, [&](size_t number, std::string* said) {
        if (number == flight) (*said)[at] ^= static_cast<char>(1 + at % 255);
      });
      const std::string where = absl::StrCat("byte ", at, " of flight ", flight);
      EXPECT_EQ(ERR_peek_error(), 0u) << where;
      EXPECT_EQ(HaveTheSameKeys(*connecting, *listening), IsIgnored(flight, at)) << where;
      // The receiver of the changed flight gets no keys from it.
      const Handshake& taker = flight == 1 ? *connecting : *listening;
      EXPECT_EQ(taker.is_done(), IsIgnored(flight, at)) << where;
    }
  }
}

TEST(Handshake, ACutOffFlightIsWaitedFor) {
  for (size_t flight = 0; flight < 3; ++flight) {
    for (const size_t left : {1, 5, 40, 100}) {
      const auto connecting = HandshakeConnecting();
      const auto listening = HandshakeListening();
      const Spoken spoken = Talk(*connecting, *listening, [&](size_t number, std::string* said) {
        if (number == flight) said->resize(left);
      });
      EXPECT_EQ(spoken.connecting, absl::OkStatus());
      EXPECT_EQ(spoken.listening, absl::OkStatus());
      EXPECT_FALSE(listening->is_done());
      EXPECT_EQ(spoken.flights.size(), flight + 1);
    }
  }
}

TEST(Handshake, WhatIsNoTlsIsRefused) {
  for (const bool is_connecting : {false, true}) {
    for (const std::string& said :
         {std::string("GET / HTTP/1.1\r\nHost: strata\r\n\r\n"), std::string(300, '\0'),
          std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(300, '\xff')}) {
      const auto handshake = is_connecting ? HandshakeConnecting() : HandshakeListening();
      std::string reply;
      ExpectInvalid(handshake->Take(AsBytes(said), &reply), "does not shake hands as Strata does");
      EXPECT_FALSE(handshake->is_done());
      EXPECT_EQ(ERR_peek_error(), 0u);
    }
  }
}

TEST(Handshake, ARecordedConnectionCannotBePlayedAgain) {
  const auto connecting = HandshakeConnecting();
  const auto listening = HandshakeListening();
  const std::vector<std::string> flights = Talk(*connecting, *listening).flights;
  const auto again = HandshakeListening();
  std::string answer, last;
  EXPECT_EQ(again->Take(AsBytes(flights[0]), &answer), absl::OkStatus());
  EXPECT_FALSE(again->is_done());
  ExpectDenied(again->Take(AsBytes(flights[2]), &last), "does not know the job's secret");
  EXPECT_FALSE(again->is_done());
  const auto connecting_again = HandshakeConnecting();
  std::string hello;
  ASSERT_TRUE(connecting_again->Take({}, &hello).ok());
  ExpectDenied(connecting_again->Take(AsBytes(flights[1]), &last),
               "does not know the job's secret");
}

TEST(Handshake, OneThatTalksToItselfIsNotDone) {
  const auto connecting = HandshakeConnecting();
  std::string hello, reply;
  ASSERT_TRUE(connecting->Take({}, &hello).ok());
  ExpectInvalid(connecting->Take(AsBytes(hello), &reply), "does not shake hands");
}

TEST(Handshake, TooMuchIsRefusedBeforeItIsLookedAt) {
  std::string reply;
  const auto at_once = HandshakeListening();
  ExpectInvalid(at_once->Take(AsBytes(std::string(kHandshakeBytesMax + 1, 'x')), &reply),
                "more than belongs to a handshake");
  // A record of 16 KiB that is never completed.
  const auto in_pieces = HandshakeListening();
  const std::string start = {0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, '\xfc'};
  ASSERT_TRUE(in_pieces->Take(AsBytes(start), &reply).ok());
  const std::string piece(1000, '\0');
  size_t bytes = start.size();
  for (; bytes + piece.size() <= kHandshakeBytesMax; bytes += piece.size()) {
    ASSERT_TRUE(in_pieces->Take(AsBytes(piece), &reply).ok());
  }
  ExpectInvalid(in_pieces->Take(AsBytes(piece), &reply), "more than belongs to a handshake");
}

TEST(Handshake, BytesAfterTheLastAreRefused) {
  for (const absl::string_view more : {"x", "\x17\x03\x03"}) {
    const auto connecting = HandshakeConnecting();
    const auto listening = HandshakeListening();
    const Spoken spoken = Talk(*connecting, *listening, [&](size_t flight, std::string* said) {
      if (flight == 2) absl::StrAppend(said, more);
    });
    EXPECT_FALSE(spoken.listening.ok());
    EXPECT_FALSE(listening->is_done());
    // Nor once it is done.
    std::string reply;
    EXPECT_EQ(connecting->Take({}, &reply), absl::OkStatus());
    EXPECT_TRUE(connecting->is_done());
    ExpectInvalid(connecting->Take(AsBytes(more), &reply), "more than belongs to a handshake");
    EXPECT_FALSE(connecting->is_done());
  }
}

TEST(Handshake, ErrorsOfOthersInTheThreadAreNotItsOwn) {
  const auto connecting = HandshakeConnecting();
  const auto listening = HandshakeListening();
  const Spoken spoken = Talk(*connecting, *listening, [](size_t, std::string*) {
    ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);
  });
  EXPECT_EQ(spoken.connecting, absl::OkStatus());
  EXPECT_TRUE(HaveTheSameKeys(*connecting, *listening));
}

TEST(Handshake, AnIdentityHasBounds) {
  for (const size_t bytes : {0, 65, 1000}) {
    ExpectInvalid(
        Handshake::Connect(std::string(bytes, 'j'), HandshakeJobSecret(), SaltOf(1)).status(),
        "an identity has 1 to 64 bytes");
  }
  const std::string longest(64, 'j');
  const auto connecting = HandshakeConnecting(longest);
  const auto listening = *Handshake::Accept(
      [&](absl::string_view identity) {
        EXPECT_EQ(identity, longest);
        return HandshakeJobSecret();
      },
      SaltOf(2));
  Talk(*connecting, *listening);
  EXPECT_TRUE(HaveTheSameKeys(*connecting, *listening));
}

TEST(Handshake, AListenerMayHaveASaltForEachIdentity) {
  for (const int attempt : {3, 4}) {
    const auto connecting = HandshakeConnecting(IdentityOf(7, attempt));
    const auto listening =
        *Handshake::Accept([](absl::string_view identity) -> std::optional<Handshake::Known> {
          return Handshake::Known{HandshakeJobSecret(), SaltOf(identity.back())};
        });
    Talk(*connecting, *listening);
    ASSERT_TRUE(HaveTheSameKeys(*connecting, *listening));
    EXPECT_EQ(connecting->peer_salt(), SaltOf('0' + attempt));
  }
}

TEST(ConnectionSecret, IsOfOneAttemptAndOneListenerAndNotTheJobsOwn) {
  Secret job;
  job.fill(std::byte{0x0b});
  EXPECT_EQ(IdentityOf(7, 4000000000), "job 7 attempt 4000000000");
  EXPECT_NE(ConnectionSecret(job, 1, "a"), ConnectionSecret(job, 2, "a"));
  EXPECT_NE(ConnectionSecret(job, 1, "a"), ConnectionSecret(job, 1, "b"));
  EXPECT_NE(ConnectionSecret(job, 1, ""), job);
  // Computed by another implementation, as seal_vectors_test.py does.
  EXPECT_EQ(ToHex(ConnectionSecret(job, 258, "tcp://10.0.0.1:7100")),
            "18ef322320a86d47b34cf6bf22004d538d4c4dabb04023c88ca8beb3fdf56f20");
}

// Peers with other implementations: OpenSSL's own clients and servers.

constexpr char kIdentity[] = "job 7 attempt 1";

Secret JobSecret() {
  Secret secret;
  secret.fill(std::byte{42});
  return secret;
}

std::unique_ptr<Handshake> Listening() {
  return *Handshake::Accept(
      [](absl::string_view identity) {
        return identity == kIdentity ? std::optional<Secret>(JobSecret()) : std::nullopt;
      },
      Salt{});
}

std::unique_ptr<Handshake> Connecting() {
  return *Handshake::Connect(kIdentity, JobSecret(), Salt{});
}

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* tls) const { SSL_free(tls); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};

// A peer over memory BIOs; tests set it up by its context.
class Peer {
 public:
  explicit Peer(const SSL_METHOD* method) : context(SSL_CTX_new(method)) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  }

  // Performs the handshake, and sends a salt of zeros, or `salt` if that is set.
  std::string Take(absl::string_view said, bool is_connecting) {
    if (tls_ == nullptr) {
      tls_.reset(SSL_new(context.get()));
      SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
      is_connecting ? SSL_set_connect_state(tls_.get()) : SSL_set_accept_state(tls_.get());
    }
    if (!early_data.empty()) {
      size_t bytes = 0;
      EXPECT_EQ(SSL_write_early_data(tls_.get(), early_data.data(), early_data.size(), &bytes), 1);
      early_data.clear();
    }
    BIO_write(SSL_get_rbio(tls_.get()), said.data(), static_cast<int>(said.size()));
    if (!is_finished && SSL_do_handshake(tls_.get()) == 1) {
      is_finished = true;
      SSL_write(tls_.get(), salt.data(), static_cast<int>(salt.size()));
    }
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(SSL_get_wbio(tls_.get()), &data);
    const std::string reply(data, bytes);
    (void)BIO_reset(SSL_get_wbio(tls_.get()));
    ERR_clear_error();
    return reply;
  }

  std::unique_ptr<SSL_CTX, Free> context;
  std::string salt = std::string(kSaltBytes, '\0');
  std::string early_data;
  bool is_finished = false;

 private:
  std::unique_ptr<SSL, Free> tls_;
};

// Returns our side's result.
absl::Status Outcome(Peer& peer, Handshake& ours, bool peer_connects) {
  absl::Status status;
  std::string said;
  if (!peer_connects) status = ours.Take({}, &said);
  for (int flights = 0; flights < 5 && status.ok(); ++flights) {
    const std::string answer = peer.Take(said, peer_connects);
    said.clear();
    if (answer.empty()) break;
    status = ours.Take(AsBytes(answer), &said);
  }
  EXPECT_EQ(ERR_peek_error(), 0u);
  if (!status.ok()) {
    EXPECT_FALSE(ours.is_done());
    if (!said.empty()) peer.Take(said, peer_connects);
  }
  return status;
}

SSL_SESSION* NewSession(SSL* tls, const Secret& secret, unsigned char suite) {
  SSL_SESSION* const session = SSL_SESSION_new();
  const unsigned char id[] = {0x13, suite};
  SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret.data()),
                              secret.size());
  SSL_SESSION_set_cipher(session, SSL_CIPHER_find(tls, id));
  SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

template <unsigned char kSuite>
int UsePsk(SSL* tls, const EVP_MD*, const unsigned char** id, size_t* bytes, SSL_SESSION** out) {
  *id = reinterpret_cast<const unsigned char*>(kIdentity);
  *bytes = sizeof kIdentity - 1;
  *out = NewSession(tls, JobSecret(), kSuite);
  return 1;
}

int FindPsk(SSL* tls, const unsigned char*, size_t, SSL_SESSION** out) {
  *out = NewSession(tls, JobSecret(), 0x02);
  return 1;
}

// Gives it a certificate, as ordinary servers have.
void GiveCertificate(SSL_CTX* context) {
  const std::unique_ptr<EVP_PKEY, Free> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Free> certificate(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  EXPECT_EQ(SSL_CTX_use_certificate(context, certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key.get()), 1);
}

TEST(ForeignPeer, WithTheSecretIsAccepted) {
  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePsk<0x02>);
  const auto listening = Listening();
  EXPECT_EQ(Outcome(client, *listening, true), absl::OkStatus());
  EXPECT_TRUE(listening->is_done());

  Peer server(TLS_server_method());
  SSL_CTX_set_psk_find_session_callback(server.context.get(), FindPsk);
  SSL_CTX_set_num_tickets(server.context.get(), 0);
  const auto connecting = Connecting();
  EXPECT_EQ(Outcome(server, *connecting, false), absl::OkStatus());
  EXPECT_TRUE(connecting->is_done());
}

TEST(ForeignPeer, OfAnOlderTlsIsRefused) {
  Peer client(TLS_client_method());
  SSL_CTX_set_max_proto_version(client.context.get(), TLS1_2_VERSION);
  EXPECT_EQ(Outcome(client, *Listening(), true).message(),
            "the peer does not shake hands as Strata does: unsupported protocol");
  Peer server(TLS_server_method());
  GiveCertificate(server.context.get());
  SSL_CTX_set_max_proto_version(server.context.get(), TLS1_2_VERSION);
  const absl::Status status = Outcome(server, *Connecting(), false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(ForeignPeer, AClientWithoutTheSecretIsRefused) {
  Peer client(TLS_client_method());
  const absl::Status status = Outcome(client, *Listening(), true);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_FALSE(client.is_finished);
}

TEST(ForeignPeer, AServerWithACertificateInsteadIsRefused) {
  Peer server(TLS_server_method());
  GiveCertificate(server.context.get());
  const absl::Status status = Outcome(server, *Connecting(), false);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate verify failed"));
  EXPECT_FALSE(server.is_finished);
}

TEST(ForeignPeer, OtherCiphersAndGroupsAreRefused) {
  Peer other_cipher(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(other_cipher.context.get(), UsePsk<0x01>);
  SSL_CTX_set_ciphersuites(other_cipher.context.get(), "TLS_AES_128_GCM_SHA256");
  EXPECT_FALSE(Outcome(other_cipher, *Listening(), true).ok());

  Peer other_group(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(other_group.context.get(), UsePsk<0x02>);
  SSL_CTX_set1_groups_list(other_group.context.get(), "P-256");
  EXPECT_FALSE(Outcome(other_group, *Listening(), true).ok());
}

// Without X25519 the secret alone would reveal the keys to anybody who learns it later. OpenSSL's
// client does not choose this by itself, so its server is asked to.
TEST(ForeignPeer, OneWithoutForwardSecrecyIsRefused) {
  Peer server(TLS_server_method());
  SSL_CTX_set_psk_find_session_callback(server.context.get(), FindPsk);
  SSL_CTX_set_options(server.context.get(), SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set1_groups_list(server.context.get(), "P-256");
  EXPECT_FALSE(Outcome(server, *Connecting(), false).ok());

  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePsk<0x02>);
  SSL_CTX_set_options(client.context.get(), SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set1_groups_list(client.context.get(), "P-256");
  EXPECT_FALSE(Outcome(client, *Listening(), true).ok());
}

int UseLongIdentity(SSL* tls, const EVP_MD* digest, const unsigned char** id, size_t* bytes,
                    SSL_SESSION** out) {
  static const std::string identity(kIdentityBytesMax + 1, 'j');
  UsePsk<0x02>(tls, digest, id, bytes, out);
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *bytes = identity.size();
  return 1;
}

TEST(ForeignPeer, AnIdentityAboveTheBoundIsNobodys) {
  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UseLongIdentity);
  const auto listening = *Handshake::Accept(
      [](absl::string_view) {
        ADD_FAILURE() << "nobody asks for it";
        return JobSecret();
      },
      Salt{});
  EXPECT_EQ(Outcome(client, *listening, true).code(), absl::StatusCode::kPermissionDenied);
}

int UsePskForEarlyData(SSL* tls, const EVP_MD* digest, const unsigned char** id, size_t* bytes,
                       SSL_SESSION** out) {
  UsePsk<0x02>(tls, digest, id, bytes, out);
  SSL_SESSION_set_max_early_data(*out, 1000);
  return 1;
}

// Early data can be replayed.
TEST(ForeignPeer, EarlyDataIsRefused) {
  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePskForEarlyData);
  client.early_data = std::string(kSaltBytes, 'e');
  const auto listening = Listening();
  const absl::Status status = Outcome(client, *listening, true);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too much early data"));
}

TEST(ForeignPeer, ASaltOfAnotherSizeIsRefused) {
  for (const size_t bytes : {1, 15, 17, 100}) {
    Peer client(TLS_client_method());
    client.salt = std::string(bytes, 's');
    SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePsk<0x02>);
    const auto listening = Listening();
    const absl::Status status = Outcome(client, *listening, true);
    EXPECT_FALSE(listening->is_done());
    EXPECT_EQ(status.code(),
              bytes < kSaltBytes ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument)
        << status;
  }
}

}  // namespace
}  // namespace strata::seal
