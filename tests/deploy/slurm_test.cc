#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "common/os/process.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

// deploy/slurm/strata.sbatch as Slurm runs it.

namespace strata::tests {

// A Slurm cluster of the nodes n1 and n2, both this machine, with four CPUs each, as child
// processes in a new folder under /tmp, which goes with this object. No jobs may be left then.
class SlurmCluster {
 public:
  SlurmCluster();
  ~SlurmCluster();

  // Both nodes are idle then. Errors: NotFound (a Slurm program is not installed), DeadlineExceeded
  // with what the daemons wrote.
  absl::Status Start();

  const std::string& dir() const { return dir_; }

  // The standard output of a Slurm command (`sbatch ...`) that succeeds, else what it wrote.
  absl::StatusOr<std::string> Run(const std::vector<std::string>& command);

  // A field of `scontrol show job`, such as JobState; empty: no such job or field.
  std::string JobField(const std::string& job, const std::string& field);
  // Waits until no process of the job is left and returns its state.
  std::string WaitForEnd(const std::string& job);

 private:
  absl::Status Spawn(const std::vector<std::string>& command);
  void WriteConfiguration() const;
  std::string Logs() const;

  std::string dir_;
  std::vector<std::unique_ptr<Process>> daemons_;  // in the order in which they were started
};

namespace {

// $0: this host, $1: user, $2: folder, $3 to $5: ports.
constexpr char kConfiguration[] = R"(ClusterName=strata
SlurmctldHost=$0(127.0.0.1)
SlurmUser=$1
SlurmdUser=$1
AuthType=auth/munge
AuthInfo=socket=$2/munge.socket
SlurmctldPort=$3
SlurmctldPidFile=$2/slurmctld.pid
SlurmctldLogFile=$2/slurmctld.log
StateSaveLocation=$2/state
SlurmdPidFile=$2/slurmd-%n.pid
SlurmdLogFile=$2/slurmd-%n.log
SlurmdSpoolDir=$2/spool-%n
SlurmdParameters=config_overrides
PlugStackConfig=$2/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SwitchType=switch/none
MpiDefault=none
KillWait=20
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$4 CPUs=4 RealMemory=2000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$5 CPUs=4 RealMemory=2000
PartitionName=all Nodes=n1,n2 Default=YES State=UP MaxTime=INFINITE
)";

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string UserName() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : "root";
}

// munge accepts nothing that others can read.
void WriteKey(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::random_device random;
  for (int i = 0; i < 32; ++i) {
    const unsigned word = random();
    [[maybe_unused]] ssize_t written = write(file.get(), &word, sizeof(word));
  }
}

}  // namespace

SlurmCluster::SlurmCluster() {
  // Short, as the paths of sockets are limited.
  char path[] = "/tmp/strata-slurm-XXXXXX";
  if (mkdtemp(path) != nullptr) dir_ = path;
}

SlurmCluster::~SlurmCluster() {
  while (!daemons_.empty()) {
    daemons_.back()->Signal(SIGTERM);
    WaitUntil([this] { return daemons_.back()->TryReap().has_value(); }, absl::Seconds(20));
    daemons_.pop_back();
  }
  std::error_code ignored;
  if (!dir_.empty()) std::filesystem::remove_all(dir_, ignored);
}

void SlurmCluster::WriteConfiguration() const {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  const std::string name(host);
  // Below the ports that the system gives out.
  const int port = 10'000 + getpid() % 20'000;
  std::ofstream(dir_ + "/slurm.conf") << absl::Substitute(
      kConfiguration, name.substr(0, name.find('.')), UserName(), dir_, port, port + 1, port + 2);
  std::ofstream(dir_ + "/plugstack.conf") << "";
  for (const char* folder : {"/state", "/spool-n1", "/spool-n2"}) {
    std::filesystem::create_directory(dir_ + folder);
  }
  WriteKey(dir_ + "/munge.key");
}

absl::Status SlurmCluster::Spawn(const std::vector<std::string>& command) {
  Process::Spec spec;
  spec.args = {"env", absl::StrCat("SLURM_CONF=", dir_, "/slurm.conf"),
               "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  spec.args.insert(spec.args.end(), command.begin(), command.end());
  spec.log_path = absl::StrCat(dir_, "/daemon-", daemons_.size(), ".out");
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  daemons_.push_back(std::move(*process));
  return absl::OkStatus();
}

absl::Status SlurmCluster::Start() {
  if (dir_.empty()) return absl::InternalError("cannot make a directory in /tmp");
  for (const char* program : {"munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol"}) {
    if (std::filesystem::exists(absl::StrCat("/usr/sbin/", program)) ||
        std::filesystem::exists(absl::StrCat("/usr/bin/", program))) {
      continue;
    }
    return absl::NotFoundError(absl::StrCat(
        program,
        " is not installed: run deploy/install_packages.sh --tests (munge, slurm-client, "
        "slurmctld, slurmd)"));
  }
  WriteConfiguration();
  auto in = [this](const std::string& name) { return absl::StrCat(dir_, "/", name); };
  absl::Status status =
      Spawn({"munged", "--foreground", "--force", "--key-file=" + in("munge.key"),
             "--socket=" + in("munge.socket"), "--pid-file=" + in("munged.pid"),
             "--log-file=" + in("munged.log"), "--seed-file=" + in("munged.seed")});
  if (!status.ok()) return status;
  if (!WaitUntil([&] { return std::filesystem::exists(in("munge.socket")); })) {
    return absl::DeadlineExceededError(absl::StrCat("munged makes no socket:\n", Logs()));
  }
  for (const std::vector<std::string>& command : {std::vector<std::string>{"slurmctld", "-D", "-i"},
                                                  {"slurmd", "-D", "-N", "n1"},
                                                  {"slurmd", "-D", "-N", "n2"}}) {
    status = Spawn(command);
    if (!status.ok()) return status;
  }
  const bool idle = WaitUntil([this] {
    const auto states = Run({"sinfo", "--noheader", "--Node", "--format=%N %T"});
    return states.ok() && *states == "n1 idle\nn2 idle\n";
  });
  if (idle) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("the nodes are not idle:\n", Logs()));
}

std::string SlurmCluster::Logs() const {
  std::string text;
  for (size_t i = 0; i < daemons_.size(); ++i) {
    absl::StrAppend(&text, ReadAll(absl::StrCat(dir_, "/daemon-", i, ".out")));
  }
  return text;
}

absl::StatusOr<std::string> SlurmCluster::Run(const std::vector<std::string>& command) {
  const std::string base = dir_ + "/command";
  UniqueFd out(open((base + ".out").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  std::filesystem::remove(base + ".err");
  Process::Spec spec;
  spec.args = {"env", absl::StrCat("SLURM_CONF=", dir_, "/slurm.conf")};
  spec.args.insert(spec.args.end(), command.begin(), command.end());
  spec.log_path = base + ".err";
  spec.stdout_fd = out.get();
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  if (!WaitUntil([&] { return (*process)->TryReap().has_value(); })) {
    return absl::DeadlineExceededError(absl::StrCat(command[0], " does not end"));
  }
  if ((*process)->Reap().ok()) return ReadAll(base + ".out");
  return absl::UnknownError(absl::StrCat(command[0], ": ", ReadAll(base + ".err")));
}

std::string SlurmCluster::JobField(const std::string& job, const std::string& field) {
  const auto shown = Run({"scontrol", "--oneliner", "show", "job", job});
  if (!shown.ok()) return "";
  const std::string key = absl::StrCat(" ", field, "=");
  const size_t begin = shown->find(key);
  if (begin == std::string::npos) return "";
  const size_t value = begin + key.size();
  return shown->substr(value, shown->find_first_of(" \n", value) - value);
}

std::string SlurmCluster::WaitForEnd(const std::string& job) {
  std::string state;
  WaitUntil([&] {
    state = JobField(job, "JobState");
    return state != "PENDING" && state != "RUNNING" && state != "COMPLETING" &&
           Run({"squeue", "--noheader", "--job", job}).value_or("x") == "";
  });
  return state;
}

namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Slurm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    slurm_ = std::make_unique<SlurmCluster>();
    started_ = slurm_->Start();
  }
  static void TearDownTestSuite() { slurm_.reset(); }

  void SetUp() override { ASSERT_EQ(started_, absl::OkStatus()); }

  void TearDown() override {
    if (!job_.empty()) slurm_->Run({"scancel", "--quiet", job_}).IgnoreError();
    if (!job_.empty()) slurm_->WaitForEnd(job_);
    EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(30)));
    EXPECT_THAT(Processes(), IsEmpty()) << "of the daemons";
  }

  void Submit(const proto::Job& job, const std::vector<std::string>& more = {},
              const std::string& environment = "") {
    std::vector<std::string> command = {
        "sbatch",
        "--parsable",
        "--chdir=" + TestDir(),
        "--output=" + TestDir() + "/log",
        absl::StrCat("--export=ALL,STRATA=", StrataBinary(), ",STRATA_RUNS=", TestDir(),
                     "/runs,STRATA_SLOTS=2", environment),
        std::filesystem::absolute("deploy/slurm/strata.sbatch"),
        WriteJob(TestDir(), job)};
    command.insert(command.end(), more.begin(), more.end());
    const auto id = slurm_->Run(command);
    ASSERT_TRUE(id.ok()) << id.status();
    job_ = std::string(absl::StripSuffix(*id, "\n"));
  }

  std::string Log() const {
    std::ifstream in(TestDir() + "/log");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  // Where the keys of the run are while it continues.
  std::string KeysFolder() const { return absl::StrCat(TestDir(), "/runs/keys-", job_); }

  // Submits a job that would run for hours and waits until it trains.
  void SubmitLongJob() {
    proto::Job job = LenetJob("long", 4, 2, 10'000'000);
    job.mutable_debug()->clear_hash_weights();
    Submit(job);
    const std::string metrics = TestDir() + "/runs/long-1/metrics.jsonl";
    ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(metrics); })) << Log();
    ASSERT_EQ(ListProcesses("rank").size(), 4u);
    traces_ = Traces();
    struct stat folder = {}, file = {};
    ASSERT_EQ(stat(KeysFolder().c_str(), &folder), 0) << KeysFolder();
    EXPECT_EQ(folder.st_mode & 07777, 0700u);
    ASSERT_EQ(stat((KeysFolder() + "/worker-n1.pem").c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 0600u);
  }

  static std::unique_ptr<SlurmCluster> slurm_;
  static absl::Status started_;
  std::string job_;
  std::vector<std::string> traces_;
};

std::unique_ptr<SlurmCluster> Slurm::slurm_;
absl::Status Slurm::started_;

TEST_F(Slurm, RunsAJobWithAWorkerOnEachNode) {
  Submit(LenetJob("job", 4, 2, 20), {"--set", "metrics.every_steps=5"}, ",STRATA_SERVERS=2");
  EXPECT_EQ(slurm_->WaitForEnd(job_), "COMPLETED") << Log();
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "0:0");
  for (const char* part :
       {"strata slurm ready coordinator=127.0.0.1:", " servers=2 workers=2 slots=4 ",
        "4 ranks on n1, n2\n", "step 20/20", "finished after "}) {
    EXPECT_THAT(Log(), HasSubstr(part));
  }
  EXPECT_THAT(Log(), testing::Not(HasSubstr("warning")));
  EXPECT_EQ(Metrics(TestDir() + "/runs/job-1").size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(KeysFolder()));
}

TEST_F(Slurm, TheExitStatusIsTheJobs) {
  proto::Job job = LenetJob("job", 2, 1, 20);
  job.mutable_data()->clear_synthetic();
  job.mutable_data()->mutable_idx()->set_dir("/nowhere");
  Submit(job);
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "1:0");
  EXPECT_THAT(Log(), HasSubstr("/nowhere"));
}

TEST_F(Slurm, AJobThatCannotRunThereEndsAtOnceWithTheReason) {
  Submit(LenetJob("job", 5, 0, 20));
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "1:0");
  EXPECT_THAT(Log(),
              HasSubstr("strata: error: the job has 5 ranks, the nodes have 4 slots in all"));
  Submit(LenetJob("job", 2, 1, 20), {"--set", "ranks=none"});
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "2:0");
  EXPECT_THAT(Log(), HasSubstr("strata: error: "));
}

TEST_F(Slurm, ScancelEndsEveryDaemon) {
  SubmitLongJob();
  ASSERT_TRUE(slurm_->Run({"scancel", job_}).ok());
  EXPECT_EQ(slurm_->WaitForEnd(job_), "CANCELLED");
  EXPECT_FALSE(std::filesystem::exists(KeysFolder()));
  EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(30)));
  EXPECT_THAT(RemainingAtLast(traces_), IsEmpty());
}

// Slurm sends the same signal before the time limit.
TEST_F(Slurm, SigtermToTheScriptStopsTheDaemonsInTheirOrder) {
  SubmitLongJob();
  ASSERT_TRUE(slurm_->Run({"scancel", "--batch", "--signal=TERM", job_}).ok());
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "143:0");
  EXPECT_FALSE(std::filesystem::exists(KeysFolder()));
  EXPECT_THAT(Log(), HasSubstr("strata: error: stopped before the job had ended\n"));
  EXPECT_THAT(Log(), testing::Not(HasSubstr("had to be killed")));
  EXPECT_THAT(Processes(), IsEmpty()) << "when the script ends, its daemons have ended";
  EXPECT_THAT(Remaining(traces_), IsEmpty());
}

}  // namespace

}  // namespace strata::tests
