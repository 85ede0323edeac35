#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "common/os/environment.h"
#include "common/os/process.h"
#include "common/random.h"
#include "common/require.h"
#include "common/unique_fd.h"

// Stores and checkpoints on a third-party S3 server, which checks signatures and rights, over TCP
// and TLS, also with a faulty network in between.

namespace strata {

// A proxy between a store and a server on loopback. It does to each connection, in turn, one of:
// nothing, an answer of its own (503), a reset, an orderly end, silence. The latter three come
// after a seeded number of bytes in either direction.
class FaultProxy {
 public:
  enum Kind { kFaithful, kBusy, kReset, kCut, kSilent, kKinds };

  FaultProxy(uint16_t server_port, uint64_t seed);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  uint16_t port() const { return port_; }
  // Returns how many connections each kind of fault has ended.
  std::array<int, kKinds> faults() const;

 private:
  void Accept();
  void Serve(int client, uint64_t number);
  // Forwards until one side ends. Returns true if the fault is due first.
  static bool Forward(int client, int server, uint64_t bytes_max);
  void Fault(int client, Kind kind);

  const uint16_t server_port_;
  const uint64_t seed_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  mutable absl::Mutex mutex_;
  std::list<int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::array<int, kKinds> faults_ ABSL_GUARDED_BY(mutex_) = {};
  std::thread acceptor_;
};

// A third-party S3 server (moto_server.py) as a child process, with an empty bucket "bucket". It
// ends with this object.
class Moto {
 public:
  // Returns null, and fails the test with the reason, if it does not start.
  static std::unique_ptr<Moto> Start();

  // Returns the settings with which a store reaches it, with or without TLS.
  Environment Variables(bool tls) const;
  // Returns a fact that it has printed: "secret".
  std::string Fact(const std::string& name) const { return facts_.at(name).get<std::string>(); }
  uint16_t port(bool tls) const;

 private:
  Moto() = default;

  std::unique_ptr<Process> process_;
  UniqueFd its_input_;
  nlohmann::json facts_;
};

namespace {

sockaddr_in Loopback(uint16_t port) {
  return {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

bool SendAll(int fd, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

void ReadToTheEnd(int fd) {
  char block[65536];
  while (recv(fd, block, sizeof block, 0) > 0) {
  }
}

}  // namespace

FaultProxy::FaultProxy(uint16_t server_port, uint64_t seed)
    : server_port_(server_port), seed_(seed), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  STRATA_REQUIRE(bind(listener_.get(), plain, size) == 0);
  STRATA_REQUIRE(listen(listener_.get(), 64) == 0);
  STRATA_REQUIRE(getsockname(listener_.get(), plain, &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

FaultProxy::~FaultProxy() {
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::array<int, FaultProxy::kKinds> FaultProxy::faults() const {
  absl::MutexLock lock(&mutex_);
  return faults_;
}

void FaultProxy::Accept() {
  for (uint64_t number = 0;; ++number) {
    UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
    if (!fd.valid()) return;
    absl::MutexLock lock(&mutex_);
    open_.push_back(fd.get());
    threads_.emplace_back([this, number, own = std::make_shared<UniqueFd>(std::move(fd))] {
      Serve(own->get(), number);
      absl::MutexLock closing(&mutex_);
      open_.remove(own->get());
      own->Reset();
    });
  }
}

void FaultProxy::Serve(int client, uint64_t number) {
  const Kind kind = static_cast<Kind>(RandomBelow(seed_, 2 * number, kKinds));
  // Small requests break as well as large ones: up to 512 B, 16 KiB, 512 KiB or 16 MiB.
  const uint64_t random = RandomBits(seed_, 2 * number + 1);
  const uint64_t bytes = (random >> 8) % (uint64_t{512} << (5 * (random % 4)));
  if (kind == kBusy) return Fault(client, kind);
  const UniqueFd server(socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = Loopback(server_port_);
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return;
  }
  if (Forward(client, server.get(), kind == kFaithful ? UINT64_MAX : bytes)) Fault(client, kind);
}

bool FaultProxy::Forward(int client, int server, uint64_t bytes_max) {
  uint64_t bytes = 0;
  char block[16384];
  while (bytes < bytes_max) {
    pollfd fds[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      const ssize_t got = recv(fds[i].fd, block, sizeof block, 0);
      if (got <= 0 || !SendAll(fds[1 - i].fd, block, static_cast<size_t>(got))) return false;
      bytes += static_cast<uint64_t>(got);
    }
  }
  return true;
}

void FaultProxy::Fault(int client, Kind kind) {
  {
    absl::MutexLock lock(&mutex_);
    ++faults_[kind];
  }
  if (kind == kReset) {
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return;
  }
  if (kind == kSilent) {
    pollfd gone = {client, POLLRDHUP, 0};
    poll(&gone, 1, -1);
    return;
  }
  if (kind != kBusy) return;
  char block[16384];
  if (recv(client, block, sizeof block, 0) <= 0) return;
  constexpr char kAnswer[] =
      "HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: 43\r\n\r\n"
      "<Error><Code>SlowDown</Code></Error>\n      ";
  SendAll(client, kAnswer, sizeof kAnswer - 1);
  shutdown(client, SHUT_WR);
  ReadToTheEnd(client);
}

namespace {

std::string PrintedBy(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  char block[4096];
  std::string printed;
  while (pipe != nullptr && fgets(block, sizeof block, pipe) != nullptr) printed += block;
  if (pipe != nullptr) pclose(pipe);
  return std::string(absl::StripAsciiWhitespace(printed));
}

// Reads a line; empty: none arrived in time.
std::string ReadLine(int fd) {
  constexpr int kWaitMs = 60'000;
  std::string line;
  pollfd readable = {fd, POLLIN, 0};
  char c = 0;
  while (poll(&readable, 1, kWaitMs) == 1 && read(fd, &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

}  // namespace

std::unique_ptr<Moto> Moto::Start() {
  const std::string home = PrintedBy("deploy/python_env.sh --print s3");
  const std::string python = home + "/bin/python";
  if (access(python.c_str(), X_OK) != 0) {
    ADD_FAILURE() << python << ": is not there; run deploy/python_env.sh s3";
    return nullptr;
  }
  int input[2], output[2];
  EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  const UniqueFd its_input(input[0]), its_output(output[1]), our_output(output[0]);
  std::unique_ptr<Moto> moto(new Moto);
  moto->its_input_ = UniqueFd(input[1]);
  const std::string log = ::testing::TempDir() + "/moto.log";
  auto process =
      Process::Start({.args = {python, "tests/e2e/testing/moto_server.py", ::testing::TempDir()},
                      .log_path = log,
                      .stdout_fd = its_output.get(),
                      .stdin_fd = its_input.get(),
                      .environment = {"PYTHONDONTWRITEBYTECODE=1"}});
  if (!process.ok()) {
    ADD_FAILURE() << process.status();
    return nullptr;
  }
  moto->process_ = *std::move(process);
  const std::string line = ReadLine(our_output.get());
  moto->facts_ = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (moto->facts_.is_object()) return moto;
  ADD_FAILURE() << "moto does not start: " << PrintedBy("tail -n 5 " + log);
  return nullptr;
}

Environment Moto::Variables(bool tls) const {
  return {{"AWS_ACCESS_KEY_ID", Fact("key_id")},
          {"AWS_SECRET_ACCESS_KEY", Fact("secret")},
          {"AWS_ENDPOINT_URL", Fact(tls ? "tls_url" : "url")},
          {"AWS_CA_BUNDLE", Fact("ca")}};
}

uint16_t Moto::port(bool tls) const {
  const std::string url = Fact(tls ? "tls_url" : "url");
  uint32_t port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(url.substr(url.rfind(':') + 1), &port));
  return static_cast<uint16_t>(port);
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kPartBytes = 5 << 20;  // the minimum that S3 accepts

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

// All cases share one server, each with its own prefix.
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

// Characters that are encoded differently in a signature and in a URL.
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

// The job's checkpoints, despite all faults in between.
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
  // The system's certificates, then those of a file that is not a certificate file.
  for (const std::string bundle : {"", "tests/e2e/testing/moto_server.py"}) {
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
