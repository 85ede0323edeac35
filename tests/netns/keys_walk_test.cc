#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "common/event_fd.h"
#include "common/image/safetensors.h"
#include "common/testing/short_folder.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/job_secrets.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/netns/netns_cluster.h"

// A cluster of three hosts as docs/security.md makes it by hand, word for word; and what goes
// over the network meanwhile.

namespace strata::tests {

// Somebody at the switch of a Network, who hears each packet as it comes over its sender's cable.
// Threads: any.
class PacketCapture {
 public:
  // Listens from now on, in the network of this process. Errors: what the kernel says.
  static absl::StatusOr<std::unique_ptr<PacketCapture>> Start();
  ~PacketCapture();

  // Returns the packets since the last call, from their Ethernet headers on.
  std::vector<std::string> Take();
  // Packets that nobody has: they came faster than they were read, or were too many to keep.
  uint64_t lost();

 private:
  PacketCapture(UniqueFd socket, EventFd stop);
  void Run();
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);

  const UniqueFd socket_;
  const EventFd stop_;
  std::string buffer_;  // of the thread
  absl::Mutex mutex_;
  std::vector<std::string> packets_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

// Returns the bytes of the packets, by TCP connection and direction; a packet of any other protocol
// is a stream by itself.
std::vector<std::string> StreamsOf(const std::vector<std::string>& packets);

// Secrets that must not be readable on a network, and a search for them in captured packets.

// How many of all runs of eight values that follow each other in a tensor of this safetensors file
// are in the streams, at whatever byte. Runs of equal values count for nothing.
size_t WeightRunsIn(const std::vector<std::string>& streams, const std::string& model_path);

// Texts and bytes that tell private keys and tokens, from all files of such below `folder`.
std::vector<std::string> KeysAndTokensBelow(const std::string& folder);

bool IsInAny(const std::vector<std::string>& streams, const std::string& text);
// Returns the secrets that are in the streams, with C escapes so that they can be shown.
std::vector<std::string> HeardOf(const std::vector<std::string>& secrets,
                                 const std::vector<std::string>& streams);

namespace {

constexpr int kQueueBytes = 64 << 20;
constexpr uint64_t kKeptBytesMax = uint64_t{256} << 20;
// The kernel hands packets over before it cuts them to what a cable takes.
constexpr size_t kPacketBytesMax = 1 << 17;

struct Segment {
  std::string connection;  // both addresses and both ports, as they stand in the packet
  std::string payload;
};

// Ethernet without tags, IPv4, TCP; null: something else.
std::optional<Segment> SegmentOf(const std::string& packet) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(packet[i]); };
  constexpr size_t kIp = ETH_HLEN, kIpBytesMin = 20, kTcpBytesMin = 20;
  if (packet.size() < kIp + kIpBytesMin || at(12) != 0x08 || at(13) != 0x00) return std::nullopt;
  const size_t tcp = kIp + 4 * (at(kIp) & 0x0f);
  if (at(kIp + 9) != IPPROTO_TCP || packet.size() < tcp + kTcpBytesMin) return std::nullopt;
  const size_t payload = tcp + 4 * (at(tcp + 12) >> 4);
  return Segment{packet.substr(kIp + 12, 8) + packet.substr(tcp, 4),
                 packet.substr(std::min(payload, packet.size()))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketCapture>> PacketCapture::Start() {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "a socket of all packets");
  // Beyond the machine's limit it takes a right that a user's own network does not give.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kQueueBytes, sizeof kQueueBytes) != 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kQueueBytes, sizeof kQueueBytes);
  }
  absl::StatusOr<EventFd> stop = EventFd::Create();
  if (!stop.ok()) return stop.status();
  return std::unique_ptr<PacketCapture>(new PacketCapture(std::move(fd), *std::move(stop)));
}

PacketCapture::PacketCapture(UniqueFd socket, EventFd stop)
    : socket_(std::move(socket)),
      stop_(std::move(stop)),
      buffer_(kPacketBytesMax, '\0'),
      thread_([this] { Run(); }) {}

PacketCapture::~PacketCapture() {
  stop_.Notify();
  thread_.join();
}

void PacketCapture::Run() {
  pollfd fds[] = {{stop_.fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  while (fds[0].revents == 0) {
    if (poll(fds, 2, -1) < 0) fds[0].revents = 0;
    Read();
  }
}

void PacketCapture::Read() {
  while (true) {
    sockaddr_ll from = {};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(socket_.get(), buffer_.data(), buffer_.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return;
    // The switch hands it on by another cable, where it would be heard once more.
    if (from.sll_pkttype == PACKET_OUTGOING) continue;
    absl::MutexLock lock(&mutex_);
    if (bytes_ + got > kKeptBytesMax) {
      ++lost_;
      continue;
    }
    bytes_ += got;
    packets_.push_back(buffer_.substr(0, got));
  }
}

std::vector<std::string> PacketCapture::Take() {
  absl::MutexLock lock(&mutex_);
  bytes_ = 0;
  return std::exchange(packets_, {});
}

uint64_t PacketCapture::lost() {
  tpacket_stats stats = {};  // since they were asked for last
  socklen_t size = sizeof stats;
  absl::MutexLock lock(&mutex_);
  if (getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) {
    lost_ += stats.tp_drops;
  }
  return lost_;
}

std::vector<std::string> StreamsOf(const std::vector<std::string>& packets) {
  std::map<std::string, std::string> said;  // by connection and direction
  std::vector<std::string> streams;
  for (const std::string& packet : packets) {
    if (std::optional<Segment> segment = SegmentOf(packet)) {
      said[segment->connection] += segment->payload;
    } else {
      streams.push_back(packet);
    }
  }
  for (auto& [connection, stream] : said) streams.push_back(std::move(stream));
  return streams;
}

namespace {

constexpr size_t kRun = 8;  // values
constexpr size_t kKeyFileBytesMax = 16 << 10;

uint64_t FirstTwo(const void* values) {
  uint64_t two;
  std::memcpy(&two, values, sizeof two);
  return two;
}

// Runs, found by their first two values.
std::unordered_multimap<uint64_t, const float*> RunsOf(const SavedModel& model) {
  std::unordered_multimap<uint64_t, const float*> runs;
  for (const SavedTensor& tensor : model.tensors) {
    for (size_t i = 0; i + kRun <= tensor.values.size(); ++i) {
      const float* const run = &tensor.values[i];
      if (!std::all_of(run, run + kRun, [run](float v) { return v == *run; })) {
        runs.emplace(FirstTwo(run), run);
      }
    }
  }
  return runs;
}

// The lines of a private key, and the key itself: after the head of its DER, 32 bytes.
void AddPrivateKey(const std::string& pem, std::vector<std::string>* secrets) {
  const std::string end = "-----END PRIVATE KEY-----";
  const size_t begin = pem.find("-----BEGIN PRIVATE KEY-----\n");
  if (begin == std::string::npos || pem.find(end) == std::string::npos) return;
  const std::string body = pem.substr(begin + 28, pem.find(end) - begin - 28);
  std::string all, der;
  for (const auto line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    // The first part of the first line is the same in all keys.
    secrets->push_back(std::string(line.substr(all.empty() ? 48 : 0)));
    absl::StrAppend(&all, line);
  }
  ASSERT_TRUE(absl::Base64Unescape(all, &der));
  constexpr char kHead[] = "\x02\x01\x01\x04\x20";
  const size_t key = der.find(kHead);
  ASSERT_NE(key, std::string::npos) << "no key on P-256";
  secrets->push_back(der.substr(key + 5, 32));
}

}  // namespace

size_t WeightRunsIn(const std::vector<std::string>& streams, const std::string& model_path) {
  const absl::StatusOr<SavedModel> model = ReadSafetensors(model_path);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return 0;
  const auto runs = RunsOf(*model);
  EXPECT_GT(runs.size(), 1000u);
  size_t found = 0;
  for (const std::string& stream : streams) {
    for (size_t at = 0; at + kRun * sizeof(float) <= stream.size(); ++at) {
      const auto [first, last] = runs.equal_range(FirstTwo(&stream[at]));
      found += std::any_of(first, last, [&](const auto& run) {
        return std::memcmp(run.second, &stream[at], kRun * sizeof(float)) == 0;
      });
    }
  }
  return found;
}

std::vector<std::string> KeysAndTokensBelow(const std::string& folder) {
  std::vector<std::string> secrets;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.file_size() > kKeyFileBytesMax) continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (entry.path().extension() == ".pem") AddPrivateKey(text, &secrets);
    if (entry.path().extension() != ".token") continue;
    // strata1.AUTHORITY.SECRET
    const std::vector<std::string> parts = absl::StrSplit(text, '.');
    std::string secret;
    EXPECT_EQ(parts.size(), 3u) << entry.path();
    if (parts.size() != 3) continue;
    secrets.push_back(parts[2].substr(0, 22));
    EXPECT_TRUE(absl::WebSafeBase64Unescape(secrets.back(), &secret)) << entry.path();
    secrets.push_back(secret);
  }
  return secrets;
}

bool IsInAny(const std::vector<std::string>& streams, const std::string& text) {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const std::string& stream) { return absl::StrContains(stream, text); });
}

std::vector<std::string> HeardOf(const std::vector<std::string>& secrets,
                                 const std::vector<std::string>& streams) {
  std::vector<std::string> heard;
  for (const std::string& secret : secrets) {
    if (IsInAny(streams, secret)) heard.push_back(absl::CHexEscape(secret));
  }
  return heard;
}

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The lines "    HOST$ COMMAND" of the page, in order, each with those below it: what the command
// reads, or says.
struct PageCommand {
  std::string host, command, below;
};
std::vector<PageCommand> CommandsOf(const std::string& page) {
  std::vector<PageCommand> commands;
  std::ifstream in(page);
  bool is_below = false;
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "    ")) {
      is_below = false;
      continue;
    }
    const size_t dollar = line.find("$ ");
    const std::string host = dollar == std::string::npos ? "" : line.substr(4, dollar - 4);
    if (host == "head" || host == "node1" || host == "node2") {
      commands.push_back({host, line.substr(dollar + 2), ""});
      is_below = true;
    } else if (is_below) {
      absl::StrAppend(&commands.back().below, line.substr(4), "\n");
    }
  }
  return commands;
}

size_t BytesOf(const std::vector<std::string>& streams) {
  size_t bytes = 0;
  for (const std::string& stream : streams) bytes += stream.size();
  return bytes;
}

// A job, and what was said on the network from its submission to its end.
struct Heard {
  std::vector<std::string> streams;
  std::string model_path;
  std::vector<std::string> secrets;  // its own
  std::string token;                 // as HELLO has it
};

class KeysWalk : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto network = Network::Create();
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
    int number = 1;
    for (const char* host : {"head", "node1", "node2"}) {
      ASSERT_EQ(network_->AddHost(host, number++), absl::OkStatus());
      fs::create_directories(HomeOf(host));
      fs::create_directories(RuntimeOf(host));
    }
    // Long enough for another user to try what they may not.
    proto::Job job = LenetJob("job", 2, 2, 100);
    job.mutable_debug()->add_delays()->set_delay_ms(100);
    WriteJob(HomeOf("node2"), job);
    auto capture = PacketCapture::Start();
    ASSERT_TRUE(capture.ok()) << capture.status();
    capture_ = *std::move(capture);
  }

  std::string HomeOf(const std::string& host) const { return absl::StrCat(TestDir(), "/", host); }

  std::string RuntimeOf(const std::string& host) const {
    return absl::StrCat(short_folder_.path(), "/", host);
  }

  // In that host's network, with a home of its own and the names of the page.
  std::vector<std::string> On(const std::string& host) const {
    std::vector<std::string> words = network_->On(host);
    words.insert(words.end(), {"env", "-C", HomeOf(host), "HOME=" + HomeOf(host),
                               "XDG_RUNTIME_DIR=" + RuntimeOf(host)});
    return words;
  }
  std::string Here(const std::string& command) const {
    return absl::StrReplaceAll(command,
                               {{"head:7070", absl::StrCat(Network::AddressOf(1), ":7070")},
                                {"/var/lib/strata", HomeOf("head") + "/state"}});
  }
  std::vector<std::string> WordsOf(const std::string& command) const {
    std::vector<std::string> words = absl::StrSplit(Here(command), ' ');
    words.erase(words.begin());  // "strata"
    return words;
  }
  CommandResult Run(const std::string& host, const std::string& command) {
    return RunStrata(WordsOf(command), kDeadline, On(host));
  }
  // A command of the system's, by a shell.
  CommandResult RunShell(const std::string& host, const std::string& script) {
    std::vector<std::string> shell = On(host);
    shell.insert(shell.end(), {"sh", "-c", Here(script)});
    return RunStrata({}, kDeadline, shell);
  }

  void StartOn(const std::string& host, const std::string& title, const std::string& command) {
    auto daemon = StartDaemon(title, WordsOf(command), On(host));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemons_[title] = *std::move(daemon);
  }

  // Everything that the page says.
  void Walk() {
    const auto commands = CommandsOf("docs/security.md");
    ASSERT_EQ(commands.size(), 15u);
    for (const auto& [host, command, below] : commands) {
      SCOPED_TRACE(absl::StrCat(host, "$ ", command));
      if (host != "head") {
        // "Copy hosts.token to both hosts, ada.token to node2 and ben.token to node1."
        for (const char* token : {"/hosts.token", "/ada.token", "/ben.token"}) {
          fs::copy_file(HomeOf("head") + token, HomeOf(host) + token,
                        fs::copy_options::skip_existing);
        }
      }
      if (absl::StartsWith(command, "cat ")) {
        const CommandResult written = RunShell(host, absl::StrCat(command, "\n", below));
        ASSERT_EQ(written.status.code, 0) << written.err;
        continue;
      }
      const std::string verb = WordsOf(command)[0];
      if (verb == "coordinator" || verb == "server" || verb == "worker") {
        ASSERT_NO_FATAL_FAILURE(StartOn(host, verb, command));
        continue;
      }
      const CommandResult result = Run(host, command);
      if (absl::StartsWith(below, "strata: error: ")) {
        EXPECT_EQ(result.err, below);
        EXPECT_NE(result.status.code, 0);
        EXPECT_THAT(Run("node2", "strata jobs --coordinator head:7070").out, HasSubstr("running"));
        continue;
      }
      ASSERT_EQ(result.status.code, 0) << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr(below));
      if (verb == "status") {
        EXPECT_THAT(result.out, HasSubstr("job 1 (job): finished"));
      }
    }
  }

  // Runs a job of two nodes, which the two workers have; it takes 20 steps of 20 ms.
  void Overhear(proto::Job::Exchange exchange, bool is_signed, Heard* heard) {
    proto::Job job = LenetJob(
        absl::StrCat(is_signed ? "signed-" : "", proto::Job::Exchange_Name(exchange)), 4, 2, 20);
    job.set_exchange(exchange);
    if (is_signed) job.set_protection(proto::Job::SIGN);
    job.mutable_debug()->add_delays()->set_delay_ms(20);
    WriteJob(HomeOf("node2"), job);
    EXPECT_TRUE(WaitUntil([] { return ListProcesses("aggregator").empty(); }));
    capture_->Take();
    Command command = StartStrata(WordsOf(absl::StrCat("strata submit ", job.name(), ".textproto ",
                                                       "--coordinator head:7070 --follow")),
                                  On("node2"));
    std::vector<int> aggregators;
    EXPECT_TRUE(WaitUntil([&] {
      aggregators = ListProcesses("aggregator");
      return aggregators.size() == 2 || command.process->TryReap().has_value();
    }));
    ASSERT_EQ(aggregators.size(), 2u);
    const proto::JobRecord record = LaunchOf(aggregators[0]).record();
    const CommandResult result = Finish(std::move(command));
    ASSERT_EQ(result.status.code, 0) << result.out << result.err;
    const std::vector<std::string> packets = capture_->Take();
    EXPECT_LE(capture_->lost(), packets.size() / 100);
    heard->streams = StreamsOf(packets);
    const uint64_t token = record.token();
    heard->token.assign(reinterpret_cast<const char*>(&token), sizeof token);
    heard->secrets = Spellings(record.secret());
    ASSERT_EQ(heard->secrets[0].size(), 32u);
    const std::vector<std::string> words = absl::StrSplit(result.out, "\nmodel: ");
    ASSERT_EQ(words.size(), 2u) << result.out;
    heard->model_path = words[1].substr(0, words[1].find('\n'));
  }

  // Checks everything that was sent while the daemons joined and the page's job ran.
  void ExpectNothingWasTold() {
    const std::vector<std::string> streams = StreamsOf(capture_->Take());
    EXPECT_GT(BytesOf(streams), 100'000u);
    EXPECT_TRUE(IsInAny(streams, "\2h2")) << "the beginning of each TLS connection";
    EXPECT_FALSE(IsInAny(streams, "spiffe://"));
    const std::vector<std::string> secrets = KeysAndTokensBelow(TestDir());
    EXPECT_GT(secrets.size(), 5u * 4) << "the authority, four members, tokens";
    EXPECT_THAT(HeardOf(secrets, streams), IsEmpty());
    EXPECT_THAT(HeardOf(secrets, {ReadAll(HomeOf("node2") + "/ada.token")}), Not(IsEmpty()));
    EXPECT_EQ(WeightRunsIn(streams, HomeOf("node2") + "/strata-runs/job-1/model.safetensors"), 0u);
  }

  // With a second worker: what jobs of both exchanges tell, sealed as they are by default and only
  // signed.
  void ExpectOnlySignedJobsTellTheirWeights() {
    ASSERT_EQ(Run("head", "strata keys token worker --out second.token").status.code, 0);
    fs::copy_file(HomeOf("head") + "/second.token", HomeOf("node1") + "/second.token");
    ASSERT_NO_FATAL_FAILURE(StartOn("node1", "second worker",
                                    "strata worker --coordinator head:7070 --slots 2 --name second "
                                    "--join-file second.token"));
    for (const auto exchange : {proto::Job::PARAMETER_SERVER, proto::Job::RING}) {
      SCOPED_TRACE(proto::Job::Exchange_Name(exchange));
      Heard sealed, readable;
      ASSERT_NO_FATAL_FAILURE(Overhear(exchange, /*is_signed=*/false, &sealed));
      EXPECT_GT(BytesOf(sealed.streams), 10 * fs::file_size(sealed.model_path));
      EXPECT_EQ(WeightRunsIn(sealed.streams, sealed.model_path), 0u);
      EXPECT_THAT(HeardOf(sealed.secrets, sealed.streams), IsEmpty());
      EXPECT_FALSE(IsInAny(sealed.streams, sealed.token));
      EXPECT_FALSE(IsInAny(sealed.streams, "spiffe://"));
      // Frames that are only signed are readable, so the search above would have found them.
      ASSERT_NO_FATAL_FAILURE(Overhear(exchange, /*is_signed=*/true, &readable));
      EXPECT_GT(WeightRunsIn(readable.streams, readable.model_path), 10'000u);
      EXPECT_TRUE(IsInAny(readable.streams, readable.token));
      EXPECT_THAT(HeardOf(readable.secrets, readable.streams), IsEmpty());
    }
  }

  // Neither a token nor a key is in a log, a command line or an environment.
  void ExpectSecretsAreNotShown() {
    std::string shown;
    for (const auto& [role, daemon] : daemons_) {
      absl::StrAppend(&shown, ReadAll(daemon.log_path));
      for (const char* file : {"cmdline", "environ"}) {
        absl::StrAppend(&shown, ReadAll(absl::StrCat("/proc/", daemon.process->pid(), "/", file)));
      }
    }
    EXPECT_THAT(shown, HasSubstr("--join-file"));
    for (const char* token : {"/hosts.token", "/ada.token", "/ben.token"}) {
      const std::vector<std::string> parts = absl::StrSplit(ReadAll(HomeOf("head") + token), '.');
      ASSERT_EQ(parts.size(), 3u);
      EXPECT_THAT(shown, Not(HasSubstr(parts[2].substr(0, 22))));
    }
    EXPECT_THAT(shown, Not(HasSubstr("PRIVATE KEY")));
  }

  const ShortFolder short_folder_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<PacketCapture> capture_;
  std::map<std::string, Daemon> daemons_;
};

TEST_F(KeysWalk, ThePageMakesAClusterThatTrainsAndKeepsOthersOut) {
  ASSERT_NO_FATAL_FAILURE(Walk());
  ExpectNothingWasTold();
  const std::string name = ValueIn(daemons_["worker"].ready_line, "name");
  struct stat facts = {};
  const std::string kept = absl::StrCat(HomeOf("node2"), "/.config/strata/worker-", name, ".pem");
  ASSERT_EQ(stat(kept.c_str(), &facts), 0) << kept;
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_THAT(Run("node2", "strata status --coordinator head:7070").out,
              HasSubstr("security: mutual TLS, cluster "));
  EXPECT_THAT(Run("head", "strata keys list").out, AllOf(HasSubstr("ada"), HasSubstr("ben")));

  ASSERT_NO_FATAL_FAILURE(ExpectOnlySignedJobsTellTheirWeights());
  ExpectSecretsAreNotShown();

  // A third host with the same token, a user who has not joined, and a daemon whose keys were taken
  // back.
  EXPECT_THAT(Run("head", "strata worker --coordinator head:7070 --join-file hosts.token").err,
              HasSubstr("the token is not known: it was used already"));
  EXPECT_THAT(Run("head", "strata status --coordinator head:7070").err,
              HasSubstr("there are no keys for it"));
  EXPECT_THAT(Run("node1", "strata status --coordinator head:7070 --insecure --timeout 1").err,
              HasSubstr("cannot be reached"));
  EXPECT_EQ(Run("head", "strata keys revoke " + name + " --role worker").status.code, 0);
  EXPECT_TRUE(WaitUntil([&] { return daemons_["worker"].process->TryReap().has_value(); }));
}

}  // namespace

}  // namespace strata::tests
