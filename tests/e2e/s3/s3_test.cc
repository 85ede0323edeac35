// Stores and checkpoints on a server of S3 that somebody else wrote, which checks signatures and
// rights, over TCP and TLS, also where what lies between breaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "tests/e2e/s3/fault_proxy.h"
#include "tests/e2e/s3/moto.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kPartBytes = 5 << 20;  // the least that S3 takes

std::string Content(size_t bytes, uint64_t seed) {
  std::string content(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>((i * 2654435761u + seed) >> 13);
  return content;
}

absl::Status Put(Store& store, const std::string& name, const std::string& content,
                 bool only_new = false) {
  const absl::Span<const char> whole(content);
  const absl::Span<const char> pieces[] = {whole.subspan(0, content.size() / 3),
                                           whole.subspan(content.size() / 3)};
  return only_new ? store.PutNew(name, pieces) : store.Put(name, pieces);
}

void ExpectContent(Store& store, const std::string& name, const std::string& content) {
  const auto got = store.Get(name);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(absl::string_view(reinterpret_cast<const char*>(got->data()), got->size()) == content)
      << name;
}

// All cases share one server, each with a prefix of its own.
class S3 : public ::testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { moto_ = Moto::Start(); }
  static void TearDownTestSuite() { moto_.reset(); }
  void SetUp() override { ASSERT_NE(moto_, nullptr); }

  static bool tls() { return GetParam(); }
  static absl::StatusOr<std::unique_ptr<Store>> TryOpen(const std::string& prefix,
                                                        const Environment& others) {
    StoreOptions options = {.environment = moto_->Variables(tls()),
                            .s3 = {.stall_after = absl::Seconds(20),
                                   .retry_for = absl::Milliseconds(10),
                                   .part_bytes = kPartBytes}};
    for (const auto& [name, value] : others) options.environment[name] = value;
    return OpenStore(absl::StrCat("s3://bucket/", tls() ? "tls" : "tcp", "/", prefix), options);
  }
  static std::unique_ptr<Store> Open(const std::string& prefix, const Environment& others = {}) {
    auto store = TryOpen(prefix, others);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  static std::unique_ptr<Moto> moto_;
};

std::unique_ptr<Moto> S3::moto_;

TEST_P(S3, ObjectsArePutReadListedAndDeleted) {
  const auto store = Open("objects");
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{2} << 20, size_t{11} << 20}) {
    const std::string content = Content(bytes, bytes);
    const absl::Status status = Put(*store, "a/x", content);
    ASSERT_TRUE(status.ok()) << status;
    ExpectContent(*store, "a/x", content);
  }
  ASSERT_TRUE(Put(*store, "b", "text").ok());
  EXPECT_THAT(*store->List(), ElementsAre("a/x", "b"));
  EXPECT_TRUE(store->Delete("b").ok());
  EXPECT_TRUE(store->Delete("b").ok());
  EXPECT_EQ(store->Get("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(*store->List(), ElementsAre("a/x"));
  EXPECT_TRUE(store->DeleteFolder("a").ok());
  EXPECT_THAT(*store->List(), IsEmpty());
}

TEST_P(S3, PutNewLeavesWhatIsThere) {
  const auto store = Open("new");
  ASSERT_TRUE(Put(*store, "x", "mine", /*only_new=*/true).ok());
  EXPECT_EQ(Put(*store, "x", "yours", /*only_new=*/true).code(), absl::StatusCode::kAlreadyExists);
  ExpectContent(*store, "x", "mine");
  const std::string large = Content(6 << 20, 1);
  ASSERT_TRUE(Put(*store, "y", large, /*only_new=*/true).ok());
  EXPECT_EQ(Put(*store, "y", Content(6 << 20, 2), /*only_new=*/true).code(),
            absl::StatusCode::kAlreadyExists);
  ExpectContent(*store, "y", large);
}

// Characters that a signature writes in another way than a URL may.
TEST_P(S3, AnyPrefixIsSigned) {
  const auto store = Open("a b+c=d&e%20f~(g)!*'\xc3\xa4?#");
  ASSERT_TRUE(Put(*store, "x", "text").ok());
  ExpectContent(*store, "x", "text");
  EXPECT_THAT(*store->List(), ElementsAre("x"));
  EXPECT_TRUE(store->DeleteFolder("x").ok());
  EXPECT_TRUE(store->Delete("x").ok());
  EXPECT_THAT(*store->List(), IsEmpty());
}

TEST_P(S3, ASessionHasItsToken) {
  const Environment session = {{"AWS_ACCESS_KEY_ID", moto_->Fact("session_key_id")},
                               {"AWS_SECRET_ACCESS_KEY", moto_->Fact("session_secret")},
                               {"AWS_SESSION_TOKEN", moto_->Fact("session_token")}};
  const auto store = Open("session", session);
  const absl::Status status = Put(*store, "x", Content(6 << 20, 1));
  ASSERT_TRUE(status.ok()) << status;
  ExpectContent(*store, "x", Content(6 << 20, 1));
  EXPECT_THAT(*store->List(), ElementsAre("x"));
}

TEST_P(S3, WrongCredentialsAreRefusedAndNotShown) {
  const std::string wrong = "wrong" + moto_->Fact("secret").substr(5);
  const auto store = Open("wrong", {{"AWS_SECRET_ACCESS_KEY", wrong}});
  for (const absl::Status& status : {Put(*store, "x", "text"), store->Get("x").status(),
                                     store->List().status(), store->Delete("x")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("SignatureDoesNotMatch"));
    EXPECT_THAT(message, HasSubstr("the credentials of AWS_ACCESS_KEY_ID for bucket bucket"));
    EXPECT_THAT(message, Not(HasSubstr(wrong)));
    EXPECT_THAT(message, Not(HasSubstr(moto_->Fact("key_id"))));
  }
}

TEST_P(S3, ALongListComesInPages) {
  const auto store = Open("long");
  std::vector<std::string> expected;
  for (int i = 0; i < 1005; ++i) {
    expected.push_back(absl::StrCat("f/", 1000 + i));
    ASSERT_TRUE(Put(*store, expected.back(), "").ok());
  }
  std::sort(expected.begin(), expected.end());
  const auto names = store->List();
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(*names, expected);
}

// The job's checkpoints, with all that breaks in between.
TEST_P(S3, CheckpointsLieOnItThoughConnectionsBreak) {
  constexpr uint64_t kSeed = 7;
  FaultProxy proxy(moto_->port(tls()), kSeed);
  StoreOptions options = {.environment = moto_->Variables(tls()),
                          .s3 = {.stall_after = absl::Milliseconds(700),
                                 .retry_for = absl::Seconds(60),
                                 .first_pause = absl::Milliseconds(1),
                                 .part_bytes = kPartBytes}};
  options.environment["AWS_ENDPOINT_URL"] =
      absl::StrCat(tls() ? "https" : "http", "://127.0.0.1:", proxy.port());
  const auto store =
      *OpenStore(absl::StrCat("s3://bucket/", tls() ? "tls" : "tcp", "/faults"), options);
  Checkpoints checkpoints(*store);
  const auto put = [&](uint64_t clock, const std::string& part, size_t bytes) {
    const std::string content = Content(bytes, clock);
    const std::string name = Checkpoints::ObjectName(clock, part);
    const absl::Status status = Put(*store, name, content);
    EXPECT_TRUE(status.ok()) << status;
    const absl::Span<const char> piece(content);
    return FactsOf(name, {&piece, 1});
  };
  for (const uint64_t clock : {100, 200, 300, 400}) {
    Manifest manifest = {.job = 1, .job_name = "j", .clock = clock, .record = "r"};
    for (int part = 0; part < 8; ++part) {
      manifest.objects.push_back(put(clock, absl::StrCat("small", part), 1000 * part));
    }
    manifest.objects.push_back(put(clock, "large", (6 << 20) + clock));
    const absl::Status status = checkpoints.Complete(manifest);
    ASSERT_TRUE(status.ok()) << status;
    Manifest other = manifest;
    other.record = "another";
    EXPECT_EQ(checkpoints.Complete(other).code(), absl::StatusCode::kAlreadyExists);
    std::vector<absl::Status> passed_over;
    const auto newest = checkpoints.Newest(&passed_over);
    ASSERT_TRUE(newest.ok()) << newest.status();
    EXPECT_EQ(newest->objects, manifest.objects);
    EXPECT_THAT(passed_over, IsEmpty());
  }
  put(150, "never_completed", 100);
  ASSERT_TRUE(checkpoints.DropAfter(300).ok());
  ASSERT_TRUE(checkpoints.Prune(2).ok());
  const auto listing = checkpoints.List();
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->clocks, (std::set<uint64_t>{200, 300}));
  for (const Manifest& manifest : listing->complete) {
    const auto content = checkpoints.Read(manifest.objects[8]);
    EXPECT_TRUE(content.ok()) << content.status();
  }
  for (int kind = FaultProxy::kBusy; kind < FaultProxy::kKinds; ++kind) {
    EXPECT_GE(proxy.faults()[kind], 3) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, S3, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Tls" : "Tcp"; });

using Tls = S3;

TEST_P(Tls, ACertificateThatNobodyVouchesForIsRefused) {
  // The system's certificates, then those of a file that is none.
  for (const std::string bundle : {"", "tests/e2e/s3/moto_server.py"}) {
    const auto store = Open("x", {{"AWS_CA_BUNDLE", bundle}});
    const absl::Status status = Put(*store, "x", "text");
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("s3://bucket/tls/x/x: 127.0.0.1:"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("certificate"));
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Tls, ::testing::Values(true));

}  // namespace
}  // namespace strata
