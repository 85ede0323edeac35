#include "tests/slurm/slurm_cluster.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "common/unique_fd.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {
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

}  // namespace strata::tests
