#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/cluster/cluster_keys.h"
#include "cli/commands/commands.h"
#include "cli/options/key_options.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/render.h"
#include "common/control/keys_client.h"
#include "common/counted.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"
#include "common/keys/private_file.h"
#include "common/keys/verify.h"
#include "common/os/atomic_file.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/access/policy.h"

namespace strata::cli {
namespace {

struct KeysCommandOptions {
  CoordinatorOptions coordinator;
  std::string state_dir = "strata-state";
  std::string cluster;
  std::vector<std::string> roles;
  std::string role, name, out, join_file;
  std::string user_role, user_namespace;
  std::string key_file, certificate_file, authority_file;
  std::string ttl = "1h";
  uint32_t uses = 1;
  bool finish = false, force = false, if_missing = false, tokens = false;
};

control::KeysOptions Where(const KeysCommandOptions& options) {
  return {.coordinator = options.coordinator.address,
          .credentials = ClientOptions(options.coordinator).credentials,
          .deadline = absl::Seconds(options.coordinator.timeout_s)};
}

int Init(const KeysCommandOptions& options) {
  const std::string cluster = options.cluster.empty()
                                  ? absl::StrFormat("strata-%08x", std::random_device()())
                                  : options.cluster;
  const auto fingerprint = server::InitKeys(options.state_dir, cluster, absl::Now());
  if (options.if_missing && absl::IsAlreadyExists(fingerprint.status())) return kExitOk;
  if (!fingerprint.ok()) return PrintError(fingerprint.status());
  PrintF(
      stdout,
      "cluster %s has keys in %s/keys\n"
      "authority: SHA-256 %s\n"
      "next: start the coordinator with --state %s, and `strata keys token worker` there makes a "
      "token for each host\n",
      cluster, options.state_dir, fingerprint->c_str(), options.state_dir);
  return kExitOk;
}

// Prints a token, or writes it for this user alone.
int Token(const KeysCommandOptions& options, const std::vector<std::string>& roles) {
  absl::Duration ttl;
  if (!absl::ParseDuration(options.ttl, &ttl)) {
    return PrintError(absl::InvalidArgumentError(
        absl::StrCat("--ttl ", options.ttl, ": is no time such as 1h, 30m or 90s")));
  }
  proto::MakeTokenRequest request;
  for (const std::string& role : roles) request.add_roles(role);
  request.set_name(options.name);
  request.set_ttl_s(absl::ToInt64Seconds(ttl));
  request.set_uses(options.uses);
  if (!options.user_role.empty()) {
    request.mutable_grant()->set_role(*server::ParseUserRole(options.user_role));
    request.mutable_grant()->set_namespace_(options.user_namespace);
  }
  const auto token = control::MakeToken(Where(options), request);
  if (!token.ok()) return PrintError(token.status());
  if (options.out.empty()) {
    PrintF(stdout, "%s\n", *token);
    return kExitOk;
  }
  const absl::Status written = keys::WritePrivateFile(options.out, *token + "\n");
  return written.ok() ? kExitOk : PrintError(written);
}

int Join(const KeysCommandOptions& options) {
  const std::optional<keys::Role> role = keys::ParseRole(options.role);
  const bool is_user = *role == keys::Role::kUser;  // whose token has the name
  const std::string name = options.name.empty() && !is_user ? NameOfDaemon(*role) : options.name;
  std::string path = options.coordinator.keys.file;
  if (path.empty()) path = KeyFileOf(*role, name);
  if (path.empty()) return PrintError("there is no home for keys: --keys says where", kExitUsage);
  const auto joined = JoinWithFile(options.join_file, options.coordinator.address,
                                   absl::Seconds(options.coordinator.timeout_s), *role, name, path);
  if (!joined.ok()) return PrintError(joined.status());
  PrintF(stdout, "joined cluster %s as %s; the keys are in %s\n", joined->identity.cluster,
         keys::IdentityText(joined->identity), path);
  return kExitOk;
}

int ListKeysOfCluster(const KeysCommandOptions& options) {
  const auto listed = control::ListKeys(Where(options));
  if (!listed.ok()) return PrintError(listed.status());
  options.coordinator.json ? PrintJson(stdout, KeysJson(*listed))
                           : PrintText(stdout, KeysText(*listed, absl::Now()));
  return kExitOk;
}

int Revoke(const KeysCommandOptions& options) {
  proto::RevokeRequest request;
  request.set_role(options.role);
  request.set_name(options.name);
  request.set_tokens(options.tokens);
  if (options.name.empty() && !options.tokens) {
    return PrintError("whose keys? A name, or --tokens", kExitUsage);
  }
  const auto revoked = control::Revoke(Where(options), request);
  if (!revoked.ok()) return PrintError(revoked.status());
  if (!revoked->identity().empty()) {
    PrintF(stdout, "%s is revoked: its certificate no longer counts, its connections end\n",
           revoked->identity());
  }
  if (options.tokens) PrintF(stdout, "%s closed\n", Counted(revoked->tokens_closed(), "token"));
  return kExitOk;
}

int Rotate(const KeysCommandOptions& options) {
  if (options.finish) {
    const absl::Status done = server::FinishRotation(options.state_dir, options.force, absl::Now());
    if (!done.ok()) return PrintError(done);
    PrintF(stdout,
           "the old authority is gone: start the coordinator; running jobs go on meanwhile\n");
    return kExitOk;
  }
  const auto fingerprint = server::RotateKeys(options.state_dir, absl::Now());
  if (!fingerprint.ok()) return PrintError(fingerprint.status());
  const auto stored = server::LoadKeys(options.state_dir);
  if (!stored.ok()) return PrintError(stored.status());
  if (stored->authority->roots().size() == 1) {
    PrintF(stdout,
           "new authority: SHA-256 %s; the old one has expired\n"
           "next: start the coordinator; all members join anew\n",
           fingerprint->c_str());
    return kExitOk;
  }
  PrintF(
      stdout,
      "new authority: SHA-256 %s; the old one is trusted, too\n"
      "next: start the coordinator anew (running jobs go on meanwhile); daemons then get new "
      "certificates, users with a command of the day after; `strata keys list` shows who has one\n"
      "at last: stop it, strata keys rotate-ca --finish --state %s, and start it again\n",
      fingerprint->c_str(), options.state_dir);
  return kExitOk;
}

constexpr size_t kCertificatesBytesMax = 4 << 20;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFileOrPipe(path, kCertificatesBytesMax);
  if (text.ok() && !text->empty()) return text;
  return absl::NotFoundError(absl::StrCat(path, ": cannot be read, or is empty"));
}

int Import(const KeysCommandOptions& options) {
  const auto key = keys::ReadPrivateFile(options.key_file, 64 << 10);
  if (!key.ok()) return PrintError(key.status());
  const auto certificate = ReadText(options.certificate_file);
  if (!certificate.ok()) return PrintError(certificate.status());
  const auto authority = ReadText(options.authority_file);
  if (!authority.ok()) return PrintError(authority.status());
  const auto file = keys::ParseKeyFile(absl::StrCat(*key, "\n", *certificate, "\n", *authority),
                                       options.certificate_file);
  if (!file.ok()) return PrintError(file.status());
  const auto counts =
      keys::Verify(file->chain, file->trust(), absl::Now(), {.makes_tokens = false});
  if (!counts.ok()) return PrintError(counts.status());
  if (options.out.empty() && file->identity.role == keys::Role::kCoordinator) {
    return PrintError("--out says where a coordinator's keys are to be", kExitUsage);
  }
  const std::string path =
      options.out.empty() ? KeyFileOf(file->identity.role, file->identity.name) : options.out;
  const absl::Status written = keys::WriteKeyFile(path, *file);
  if (!written.ok()) return PrintError(written);
  PrintF(stdout, "%s: the keys of %s in cluster %s\n", path, keys::IdentityText(file->identity),
         file->identity.cluster);
  return kExitOk;
}

int ForRun(const KeysCommandOptions& options) {
  const absl::Status written = WriteKeysForRun(options.roles, options.out);
  return written.ok() ? kExitOk : PrintError(written);
}

using Shared = std::shared_ptr<KeysCommandOptions>;

CLI::App* Add(CLI::App* keys, Invocation* invocation, const Shared& options,
              const std::string& name, const std::string& text,
              int (*run)(const KeysCommandOptions&)) {
  CLI::App* command = keys->add_subcommand(name, text);
  command->callback([=] {
    const bool asks = command->get_option_no_throw("--coordinator") != nullptr;
    invocation->run = [=] {
      if (!asks) return run(*options);
      return OnCluster(&options->coordinator, ClusterChoice::kAny, [&] { return run(*options); });
    };
  });
  return command;
}

void AddStateOption(CLI::App* command, KeysCommandOptions* options) {
  command->add_option("--state", options->state_dir, "Folder of the coordinator's state")
      ->capture_default_str();
}

void AddTokenOptions(CLI::App* command, KeysCommandOptions* options) {
  AddCoordinatorOptions(command, &options->coordinator);
  command->add_option("--ttl", options->ttl, "How long it is good for: 1h, 30m, 90s")
      ->capture_default_str();
  command->add_option("--out", options->out,
                      "Write it to this file, which only you can read (default: print it)");
}

void AddTokens(CLI::App* keys, Invocation* invocation) {
  auto options = std::make_shared<KeysCommandOptions>();
  CLI::App* token =
      Add(keys, invocation, options, "token", "Make a token with which a server or worker joins",
          [](const KeysCommandOptions& given) { return Token(given, given.roles); });
  token->add_option("ROLE", options->roles, "worker, server, or both")
      ->required()
      ->check(CLI::IsMember({"worker", "server"}));
  token->add_option("--name", options->name,
                    "The one name that it is for; a certificate of that name is replaced (default: "
                    "any that is free)");
  token->add_option("--uses", options->uses, "How many daemons may join with it")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  AddTokenOptions(token, options.get());
  auto person = std::make_shared<KeysCommandOptions>();
  CLI::App* user = Add(keys, invocation, person, "user", "Make a token with which a user joins",
                       [](const KeysCommandOptions& given) { return Token(given, {"user"}); });
  user->add_option("NAME", person->name, "The user's name")->required();
  CLI::Option* const role =
      user->add_option("--role", person->user_role,
                       "view, submit, run-programs, operate, admin or none: what the user may do, "
                       "where the policy file does not list them (default: what was said before, "
                       "else the policy's default)")
          ->check(CLI::IsMember({"view", "submit", "run-programs", "operate", "admin", "none"}));
  user->add_option(
          "--namespace", person->user_namespace,
          "Whose jobs the user sees: those of the same namespace (default: the default one)")
      ->needs(role);
  AddTokenOptions(user, person.get());
}

void AddJoin(CLI::App* keys, Invocation* invocation) {
  auto options = std::make_shared<KeysCommandOptions>();
  options->role = "user";
  CLI::App* join = Add(keys, invocation, options, "join", "Get keys with a token", Join);
  join->add_option("--join-file", options->join_file, "File with the token, or -")->required();
  join->add_option("--role", options->role, "user, worker or server")
      ->check(CLI::IsMember({"user", "worker", "server"}))
      ->capture_default_str();
  join->add_option("--name", options->name,
                   "Name (default: that of a user's token, of daemons the host's)");
  AddCoordinatorOptions(join, &options->coordinator);
}

void AddRule(CLI::App* keys, Invocation* invocation) {
  auto listed = std::make_shared<KeysCommandOptions>();
  CLI::App* list = Add(keys, invocation, listed, "list", "Show who has keys", ListKeysOfCluster);
  AddCoordinatorOptions(list, &listed->coordinator);
  AddJsonOption(list, &listed->coordinator.json);
  auto revoked = std::make_shared<KeysCommandOptions>();
  CLI::App* revoke = Add(keys, invocation, revoked, "revoke",
                         "Take back a name's keys, and end its connections", Revoke);
  revoke->add_option("NAME", revoked->name, "Of a worker, server or user");
  revoke->add_flag("--tokens", revoked->tokens,
                   "Close all open tokens, too: who has one could join under another name");
  revoke->add_option("--role", revoked->role, "Where several have the name")
      ->check(CLI::IsMember({"user", "worker", "server"}));
  AddCoordinatorOptions(revoke, &revoked->coordinator);
  auto rotated = std::make_shared<KeysCommandOptions>();
  CLI::App* rotate =
      Add(keys, invocation, rotated, "rotate-ca", "Give the cluster a new authority", Rotate);
  AddStateOption(rotate, rotated.get());
  CLI::Option* const finish =
      rotate->add_flag("--finish", rotated->finish, "Trust the new one alone from now on");
  rotate->add_flag("--force", rotated->force, "Leave out who has no new certificate yet")
      ->needs(finish);
}

}  // namespace

void AddKeysCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* keys =
      app->add_subcommand("keys", "Keys of a cluster on several hosts: make, hand out, take back");
  keys->require_subcommand(1);
  auto made = std::make_shared<KeysCommandOptions>();
  CLI::App* init = Add(keys, invocation, made, "init",
                       "Make a cluster's authority, in its coordinator's state", Init);
  AddStateOption(init, made.get());
  init->add_option("--cluster", made->cluster, "The cluster's name (default: a random one)");
  init->add_flag("--if-missing", made->if_missing, "Do nothing where there are keys");
  AddTokens(keys, invocation);
  AddJoin(keys, invocation);
  AddRule(keys, invocation);
  auto run = std::make_shared<KeysCommandOptions>();
  CLI::App* for_run =
      Add(keys, invocation, run, "for-run",
          "Write the keys of a cluster for one run, as a batch system starts it", ForRun);
  for_run
      ->add_option("MEMBER", run->roles,
                   "ROLE/NAME of each member, the coordinator and a user included")
      ->required();
  for_run
      ->add_option("--out", run->out,
                   "Folder that all of its hosts share, without keys; made where missing")
      ->required();
  auto imported = std::make_shared<KeysCommandOptions>();
  CLI::App* import = Add(keys, invocation, imported, "import",
                         "Make a key file of what an authority of your own has issued", Import);
  import->add_option("--key-file", imported->key_file, "Private key, PEM")->required();
  import
      ->add_option("--cert-file", imported->certificate_file, "Certificate and intermediates, PEM")
      ->required();
  import->add_option("--ca-file", imported->authority_file, "Roots to trust, PEM")->required();
  import->add_option("--out", imported->out, "The key file (default: where daemons look for it)");
  keys->footer(
      "Examples:\n"
      "  strata keys init --state /var/lib/strata\n"
      "  strata keys token worker --out w1.token\n"
      "  strata worker --coordinator 10.0.0.1:7070 --join-file w1.token\n"
      "  strata keys user alice --ttl 24h\n"
      "  strata keys user bob --role submit --namespace vision\n"
      "  strata keys join --coordinator 10.0.0.1:7070 --join-file alice.token\n"
      "  strata keys revoke w1");
}

}  // namespace strata::cli
