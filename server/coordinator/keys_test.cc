// Admission by a coordinator with an authority of its own, over real TLS.
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/control/coordinator_client.h"
#include "common/control/keys_client.h"
#include "common/keys/join_token.h"
#include "common/testing/short_folder.h"
#include "common/testing/test_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/keys.grpc.pb.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/coordinator.h"
#include "server/testing/fake_daemon.h"

namespace strata::server {
namespace {

using control::Credentials;
using keys::Role;
using ::testing::AllOf;
using ::testing::HasSubstr;

class KeysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(InitKeys(State(), "lab", absl::Now()).ok());
    ASSERT_NO_FATAL_FAILURE(Start());
  }
  void Start() {
    coordinator_.reset();
    Coordinator::Options options;
    options.listen = address_.empty() ? "127.0.0.1:0" : address_;
    options.also_listen = dir_ + "/own";
    options.state_dir = State();
    coordinator_ = *Coordinator::Create(options);
    const absl::Status started = coordinator_->Start();
    ASSERT_TRUE(started.ok()) << started;
    address_ = absl::StrCat("127.0.0.1:", coordinator_->port());
  }

  std::string State() const { return dir_ + "/state"; }
  // Options of the coordinator's user on its host.
  control::KeysOptions Own() const { return {.coordinator = "unix:" + dir_ + "/own"}; }
  control::KeysOptions Outside(const Credentials& credentials = {}) const {
    return {.coordinator = address_, .credentials = credentials};
  }

  keys::JoinToken Token(const std::string& role, const std::string& name = "", int64_t ttl_s = 60) {
    proto::MakeTokenRequest request;
    request.add_roles(role);
    request.set_name(name);
    request.set_ttl_s(ttl_s);
    request.set_uses(1);
    return *keys::ParseJoinToken(*control::MakeToken(Own(), request));
  }
  Credentials Joined(Role role, const std::string& name) {
    const auto file = control::Join(Outside(), Token(keys::RoleName(role), name), role, name);
    EXPECT_TRUE(file.ok()) << file.status();
    const std::string path = PathOf(role, name);
    EXPECT_TRUE(keys::WriteKeyFile(path, *file).ok());
    return Credentials::File(path);
  }
  std::string PathOf(Role role, const std::string& name) const {
    return absl::StrCat(dir_, "/", keys::RoleName(role), "-", name, ".pem");
  }

  absl::Status List(const Credentials& credentials) {
    return control::CoordinatorClient::Create(
               {.coordinator = address_, .credentials = credentials, .deadline = absl::Seconds(20)})
        ->ListJobs()
        .status();
  }
  // Returns the outcome of a registration under that name with these keys.
  absl::Status Register(const Credentials& credentials, proto::Register registration) {
    control::Session::Options options;
    options.coordinator = address_;
    options.credentials = credentials;
    options.registration = std::move(registration);
    options.connect_deadline = absl::Seconds(20);
    const auto session =
        control::Session::Create(options, {.on_message = [](const proto::CoordinatorMessage&) {},
                                           .heartbeat = [] { return proto::Heartbeat(); },
                                           .running_jobs = [] { return std::vector<uint32_t>(); },
                                           .on_lost = [](const absl::Status&) {}});
    const absl::Status status = session->Start();
    session->Stop();
    return status;
  }

  const ShortFolder folder_;
  const std::string& dir_ = folder_.path();
  std::string address_;
  std::unique_ptr<Coordinator> coordinator_;
};

// Long-lived keys of all roles, and a token.
proto::KeyBookRecord ManyKeys() {
  proto::KeyBookRecord book;
  const int64_t now_ms = absl::ToUnixMillis(absl::Now());
  for (const char* role : {"server", "worker", "user"}) {
    for (const char* name : {"a", "b", "c"}) {
      proto::IssuedKey* key = book.add_keys();
      key->set_role(role);
      key->set_name(name);
      key->set_issued_ms(now_ms);
      key->set_expires_ms(now_ms + 3'600'000);
    }
  }
  proto::OpenToken* token = book.add_tokens();
  token->set_secret_hash("hash");
  token->set_uses_left(1);
  token->set_expires_ms(now_ms + 3'600'000);
  return book;
}

// Returns one key per page.
class PagedKeys final : public proto::Keys::Service {
 public:
  PagedKeys() : access_({.book = ManyKeys()}) {}
  grpc::Status ListKeys(grpc::ServerContext*, const proto::ListKeysRequest* request,
                        proto::ListKeysReply* reply) override {
    ++pages;
    *reply = access_.List(absl::Now(), *request, /*bytes_max=*/1);
    return grpc::Status::OK;
  }

  int pages = 0;

 private:
  Access access_;
};

TEST(KeyPages, AreReadToTheirEndInTheirOrder) {
  PagedKeys keys;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&keys);
  const auto server = builder.BuildAndStart();
  const auto listed = control::ListKeys(
      {.coordinator = absl::StrCat("127.0.0.1:", port), .credentials = Credentials::Insecure()});
  ASSERT_TRUE(listed.ok()) << listed.status();
  std::string names;
  for (const proto::IssuedKey& key : listed->keys()) {
    absl::StrAppend(&names, key.role(), " ", key.name(), ", ");
  }
  EXPECT_EQ(names,
            "server a, server b, server c, worker a, worker b, worker c, user a, user b, user c, ");
  EXPECT_EQ(listed->tokens_size(), 1);
  EXPECT_EQ(keys.pages, 9);
  EXPECT_FALSE(listed->more());
}

TEST(KeyPages, WhoKnowsOfNoneGetsAllAtOnce) {
  Access access({.book = ManyKeys()});
  const proto::ListKeysReply all = access.List(absl::Now(), {}, /*bytes_max=*/1);
  EXPECT_EQ(all.keys_size(), 9);
  EXPECT_EQ(all.tokens_size(), 1);
  EXPECT_FALSE(all.more());
}

TEST_F(KeysTest, WhoJoinsMayDoWhatItsRoleMay) {
  const Credentials worker = Joined(Role::kWorker, "w1");
  const Credentials server = Joined(Role::kServer, "s1");
  const Credentials user = Joined(Role::kUser, "ada");
  EXPECT_EQ(Register(worker, FakeDaemon::Worker("w1", 1)), absl::OkStatus());
  EXPECT_EQ(Register(server, FakeDaemon::Server("s1", {5001})), absl::OkStatus());
  EXPECT_EQ(List(user), absl::OkStatus());
}

TEST_F(KeysTest, NobodyRegistersUnderAnotherNameOrRole) {
  const Credentials worker = Joined(Role::kWorker, "w1");
  const Credentials server = Joined(Role::kServer, "s1");
  const Credentials user = Joined(Role::kUser, "ada");
  const auto refused = [&](const Credentials& credentials, proto::Register registration) {
    const absl::Status status = Register(credentials, std::move(registration));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused(worker, FakeDaemon::Worker("w2", 1)),
              HasSubstr("its certificate is that of worker w1, not of a worker w2"));
  EXPECT_THAT(refused(worker, FakeDaemon::Server("w1", {5001})), HasSubstr("not of a server w1"));
  EXPECT_THAT(refused(server, FakeDaemon::Worker("s1", 1)), HasSubstr("server s1"));
  EXPECT_THAT(refused(user, FakeDaemon::Worker("ada", 1)),
              HasSubstr("user ada may not be a server or worker"));
}

TEST_F(KeysTest, DaemonsAndStrangersMaySubmitNothingAndUsersRuleOverNoKeys) {
  const Credentials worker = Joined(Role::kWorker, "w1");
  EXPECT_TRUE(absl::IsPermissionDenied(List(worker))) << List(worker);
  const Credentials user = Joined(Role::kUser, "ada");
  EXPECT_TRUE(absl::IsPermissionDenied(control::ListKeys(Outside(user)).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(control::MakeToken(Outside(user), {}).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(control::Revoke(Outside(user), {}).status()));
  // TLS without a certificate, as a joining member uses it.
  const keys::JoinToken token = Token("worker");
  const absl::Status stranger = List(Credentials::Joining(token.authority));
  EXPECT_TRUE(absl::IsFailedPrecondition(stranger)) << stranger;
  EXPECT_THAT(stranger.message(), HasSubstr("only those who show a certificate"));
}

TEST_F(KeysTest, PlaintextGetsNoAnswer) {
  const auto client = control::CoordinatorClient::Create({.coordinator = address_,
                                                          .credentials = Credentials::Insecure(),
                                                          .deadline = absl::Seconds(1)});
  const absl::Status status = client->ListJobs().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("wants keys: leave out --insecure"));
  EXPECT_EQ(List(Joined(Role::kUser, "ada")), absl::OkStatus()) << "it is there";
}

TEST_F(KeysTest, WithoutKeysNothingIsSentToAPort) {
  const absl::Status status = List(Credentials());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr(address_), HasSubstr("strata keys join")));
}

TEST_F(KeysTest, ACertificateThatDoesNotCountIsRefusedAndTheReasonSaid) {
  const absl::Time now = absl::Now();
  const keys::Authority own = *LoadKeys(State())->authority;
  const auto told = [&](const keys::KeyFile& file) {
    const absl::Status status = List(Credentials::Of(file));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(address_));
    return std::string(status.message());
  };
  const auto made = [&](const keys::Identity& identity, absl::Time begins, absl::Time ends) {
    return keys::MakeKeyFile(own, identity, begins, ends);
  };
  const keys::Identity ada{"lab", Role::kUser, "ada"};
  EXPECT_THAT(told(made(ada, now - absl::Minutes(9), now - absl::Minutes(1))),
              HasSubstr("expired at"));
  EXPECT_THAT(told(made(ada, now + absl::Minutes(9), now + absl::Hours(1))),
              HasSubstr("set the clocks"));
  // A key of another authority. Its owner does not trust this coordinator, so it is given the right
  // root.
  keys::KeyFile foreign = keys::MakeKeyFile(keys::MakeAuthority("lab", now), ada,
                                            now - absl::Minutes(9), now + absl::Hours(1));
  foreign.roots = own.roots();
  EXPECT_THAT(told(foreign), HasSubstr("another"));
}

// A server that shows these keys at a free port, and serves nothing.
std::unique_ptr<grpc::Server> AnswerWith(const keys::KeyFile& own, int* port) {
  using namespace grpc::experimental;  // NOLINT: all names of one kind
  TlsServerCredentialsOptions options(std::make_shared<StaticDataCertificateProvider>(
      own.RootsPem(), std::vector<IdentityKeyCertPair>{{own.key.ToPem(), own.ChainPem()}}));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<NoOpCertificateVerifier>());
  static proto::Keys::Service nothing;
  grpc::ServerBuilder builder;
  builder.RegisterService(&nothing);
  builder.AddListeningPort("127.0.0.1:0", TlsServerCredentials(options), port);
  return builder.BuildAndStart();
}

TEST_F(KeysTest, ACoordinatorOfAnotherAuthorityOrAMemberInItsPlaceIsNotSpokenTo) {
  const absl::Time now = absl::Now();
  const keys::Identity ada{"lab", Role::kUser, "ada"};
  const keys::KeyFile foreign = keys::MakeKeyFile(keys::MakeAuthority("lab", now), ada,
                                                  now - absl::Minutes(9), now + absl::Hours(1));
  const absl::Status status = List(Credentials::Of(foreign));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("what answers there cannot be trusted"));
  // A worker's certificate of the right cluster is not a coordinator's.
  int port = 0;
  const auto impostor = AnswerWith(*Joined(Role::kWorker, "w1").Keys(), &port);
  ASSERT_NE(impostor, nullptr);
  const Credentials user = Joined(Role::kUser, "ada");
  address_ = absl::StrCat("127.0.0.1:", port);
  EXPECT_THAT(List(user).message(), HasSubstr("no coordinator but worker w1"));
}

TEST_F(KeysTest, ATokenOfAnotherClusterIsNotSentToThisOne) {
  keys::JoinToken token = Token("worker");
  token.authority[0] = static_cast<char>(token.authority[0] ^ 1);
  const absl::Status status = control::Join(Outside(), token, Role::kWorker, "w1").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("not of the cluster that the token is of"));
  // The token is not used up: its secret was never sent.
  token.authority[0] = static_cast<char>(token.authority[0] ^ 1);
  EXPECT_TRUE(control::Join(Outside(), token, Role::kWorker, "w1").ok());
  const absl::Status again = control::Join(Outside(), token, Role::kWorker, "w2").status();
  EXPECT_TRUE(absl::IsPermissionDenied(again)) << again;
}

TEST_F(KeysTest, ATokenOutlivesARestartAndAUsedOneStaysUsed) {
  const keys::JoinToken open = Token("worker"), used = Token("worker");
  ASSERT_TRUE(control::Join(Outside(), used, Role::kWorker, "w1").ok());
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_TRUE(
      absl::IsPermissionDenied(control::Join(Outside(), used, Role::kWorker, "w2").status()));
  EXPECT_TRUE(control::Join(Outside(), open, Role::kWorker, "w2").ok());
}

TEST_F(KeysTest, RevokingEndsTheSessionAndEveryLaterOne) {
  const Credentials worker = Joined(Role::kWorker, "w1");
  control::Session::Options options;
  options.coordinator = address_;
  options.credentials = worker;
  options.registration = FakeDaemon::Worker("w1", 1);
  absl::Mutex mutex;
  std::optional<absl::Status> lost;
  const auto session =
      control::Session::Create(options, {.on_message = [](const proto::CoordinatorMessage&) {},
                                         .heartbeat = [] { return proto::Heartbeat(); },
                                         .running_jobs = [] { return std::vector<uint32_t>(); },
                                         .on_lost =
                                             [&](const absl::Status& status) {
                                               absl::MutexLock lock(&mutex);
                                               lost = status;
                                             }});
  ASSERT_EQ(session->Start(), absl::OkStatus());
  proto::RevokeRequest request;
  request.set_name("w1");
  const auto who = control::Revoke(Own(), request);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(who->identity(), "worker w1");
  {
    absl::MutexLock lock(&mutex);
    const auto is_lost = [&] { return lost.has_value(); };
    ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&is_lost), absl::Seconds(30)));
    EXPECT_THAT(lost->message(), HasSubstr("the certificate of worker w1 was revoked"));
  }
  EXPECT_THAT(Register(worker, FakeDaemon::Worker("w1", 1)).message(), HasSubstr("was revoked"));
  // A new certificate of the name is accepted.
  EXPECT_EQ(Register(Joined(Role::kWorker, "w1"), FakeDaemon::Worker("w1", 1)), absl::OkStatus());
}

TEST_F(KeysTest, RevokingEndsWhatAUserFollows) {
  const Credentials user = Joined(Role::kUser, "ada");
  const auto client = control::CoordinatorClient::Create(
      {.coordinator = address_, .credentials = user, .deadline = absl::Seconds(20)});
  proto::Job job;
  job.set_name("job");
  job.mutable_program()->set_path("program");
  job.set_ranks(1);
  const auto id = client->Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();
  absl::Status ended;
  absl::Notification follows;
  std::thread follower([&] {
    ended = client
                ->Follow(*id,
                         [&](const auto&) {
                           if (!follows.HasBeenNotified()) follows.Notify();
                         })
                .status();
  });
  follows.WaitForNotification();
  proto::RevokeRequest request;
  request.set_name("ada");
  ASSERT_TRUE(control::Revoke(Own(), request).ok());
  follower.join();
  EXPECT_THAT(ended.message(), HasSubstr("was revoked"));
}

TEST_F(KeysTest, ADaemonsCertificateIsRenewedOverItsSession) {
  // One that is past two thirds of its validity, and one of an authority that is no longer the
  // newest.
  const absl::Time now = absl::Now();
  const keys::Authority authority = *LoadKeys(State())->authority;
  const keys::KeyFile old = keys::MakeKeyFile(authority, {"lab", Role::kWorker, "w1"},
                                              now - absl::Hours(3), now + absl::Hours(1));
  const std::string path = PathOf(Role::kWorker, "w1");
  ASSERT_TRUE(keys::WriteKeyFile(path, old).ok());
  const auto renewed = [&](const std::string& fingerprint) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      const auto file = keys::ReadKeyFile(path);
      if (file.ok() && file->chain[0].fingerprint() != fingerprint) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return false;
  };
  control::Session::Options options;
  options.coordinator = address_;
  options.credentials = Credentials::File(path);
  options.registration = FakeDaemon::Worker("w1", 1);
  const auto session =
      control::Session::Create(options, {.on_message = [](const proto::CoordinatorMessage&) {},
                                         .heartbeat = [] { return proto::Heartbeat(); },
                                         .running_jobs = [] { return std::vector<uint32_t>(); },
                                         .on_lost = [](const absl::Status&) {}});
  ASSERT_EQ(session->Start(), absl::OkStatus());
  ASSERT_TRUE(renewed(old.chain[0].fingerprint()));
  const auto fresh = keys::ReadKeyFile(path);
  EXPECT_GT(fresh->chain[0].not_after(), now + absl::Hours(24 * 6));
  EXPECT_EQ(fresh->identity, old.identity);

  // The daemon stays while the coordinator restarts with the next authority, and trusts it then.
  ASSERT_TRUE(RotateKeys(State(), now).ok());
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_TRUE(renewed(fresh->chain[0].fingerprint()));
  const auto between = keys::ReadKeyFile(path);
  EXPECT_EQ(between->roots.size(), 2u);
  // A daemon that joins meanwhile knows the coordinator by the previous authority.
  EXPECT_TRUE(control::Join(Outside(), Token("worker"), Role::kWorker, "w2").ok());
  proto::RevokeRequest w2;
  w2.set_name("w2");
  ASSERT_TRUE(control::Revoke(Own(), w2).ok());
  coordinator_.reset();
  ASSERT_EQ(FinishRotation(State(), false, now), absl::OkStatus());
  ASSERT_NO_FATAL_FAILURE(Start());
  // The daemon forgets the previous authority, too.
  ASSERT_TRUE(renewed(between->chain[0].fingerprint()));
  EXPECT_EQ(keys::ReadKeyFile(path)->roots.size(), 1u);
}

TEST_F(KeysTest, AUsersCertificateIsRenewed) {
  const Credentials user = Joined(Role::kUser, "ada");
  const auto renewed = control::Renew(Outside(user));
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->identity, (keys::Identity{"lab", Role::kUser, "ada"}));
  EXPECT_EQ(List(Credentials::Of(*renewed)), absl::OkStatus());
}

TEST(Keys, APortWithoutKeysIsRefusedUnlessEverybodyIsToBeTaken) {
  Coordinator::Options options;
  options.listen = "127.0.0.1:0";
  options.state_dir = absl::StrCat(::testing::TempDir(), "/n", absl::ToUnixNanos(absl::Now()));
  const absl::Status refused = (*Coordinator::Create(options))->Start();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("strata keys init --state " + options.state_dir),
                                       HasSubstr("--insecure")));
  options.insecure = true;
  EXPECT_EQ((*Coordinator::Create(options))->Start(), absl::OkStatus());
  ASSERT_TRUE(InitKeys(options.state_dir, "lab", absl::Now()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*Coordinator::Create(options))->Start()));
}

TEST(ExpiredAuthority, TheLineNamesWhatMakesANewOneAndThatDoes) {
  const ShortFolder folder;
  Coordinator::Options options;
  options.listen = "127.0.0.1:0";
  options.state_dir = folder.path() + "/state";
  ASSERT_TRUE(InitKeys(options.state_dir, "lab", absl::Now() - absl::Hours(24 * 366 * 11)).ok());
  const absl::Status expired = (*Coordinator::Create(options))->Start();
  EXPECT_THAT(std::string(expired.message()),
              HasSubstr(absl::StrCat(": `strata keys rotate-ca --state ", options.state_dir,
                                     "` makes new keys, and all members join anew")));
  ASSERT_TRUE(RotateKeys(options.state_dir, absl::Now()).ok());
  const auto coordinator = *Coordinator::Create(options);
  EXPECT_EQ(coordinator->Start(), absl::OkStatus());
}

}  // namespace
}  // namespace strata::server
