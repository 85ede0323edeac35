#include "server/coordinator/service/job_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/atomic_file.h"
#include "common/os/trusted_file.h"
#include "common/unique_fd.h"

namespace strata::server {

namespace {

constexpr char kFirstTables[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL,"
    " reason TEXT NOT NULL, data BLOB NOT NULL);";

// Columns that were added while the version was 1, so a state of version 1 may have them.
// Registrations by recency: a replaced row gets a new row id.
constexpr char kTablesSince1[] =
    "CREATE TABLE IF NOT EXISTS registrations (daemon_id INTEGER NOT NULL UNIQUE,"
    " attempt INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS draining (name TEXT PRIMARY KEY) WITHOUT ROWID;";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string RandomName() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

class SqliteJobStore final : public JobStore {
 public:
  SqliteJobStore(std::string file, UniqueFd lock, Database database)
      : file_(std::move(file)), lock_(std::move(lock)), database_(std::move(database)) {}

  // Upgrades the database and reads it once.
  absl::Status Prepare() {
    // Otherwise SQLite would move the log of writes into the file when it closes a refused state.
    KeepLogAtClose(true);
    const absl::StatusOr<int> version = CheckIsOwn();
    if (!version.ok()) return version.status();
    KeepLogAtClose(false);
    const absl::StatusOr<std::string> journal = ReadText("PRAGMA journal_mode = WAL");
    if (!journal.ok()) return journal.status();
    // SQLite reports no error if the file system cannot do it.
    if (*journal != "wal") {
      return absl::InternalError(
          absl::StrFormat("%s: cannot write ahead (WAL) on this file system: its journal mode "
                          "stays \"%s\"",
                          file_, *journal));
    }
    // Overwrites deleted content of a job's record, including its secret.
    for (const char* setting : {"PRAGMA synchronous = FULL", "PRAGMA secure_delete = ON"}) {
      if (const absl::Status set = Run(setting); !set.ok()) return set;
    }
    const absl::StatusOr<std::string> check = ReadText("PRAGMA quick_check(1)");
    if (!check.ok()) return check.status();
    if (*check != "ok") return absl::DataLossError(absl::StrCat(file_, ": ", *check));
    if (const absl::Status raised = Raise(*version); !raised.ok()) return raised;
    const absl::Status meta = ReadMeta();
    if (!meta.ok()) return meta;
    return PrepareStatements();
  }

  const std::string& cluster_id() const override { return cluster_id_; }
  uint32_t next_job_id() const override { return next_job_id_; }

  absl::StatusOr<std::vector<proto::StoredJob>> Load() override {
    absl::StatusOr<Statement> select = Compile("SELECT id, data FROM jobs ORDER BY id");
    if (!select.ok()) return select.status();
    std::vector<proto::StoredJob> jobs;
    int code;
    while ((code = sqlite3_step(select->get())) == SQLITE_ROW) {
      proto::StoredJob job;
      if (!job.ParseFromArray(sqlite3_column_blob(select->get(), 1),
                              sqlite3_column_bytes(select->get(), 1))) {
        return absl::DataLossError(absl::StrFormat("%s: job %d is damaged", file_,
                                                   sqlite3_column_int64(select->get(), 0)));
      }
      jobs.push_back(std::move(job));
    }
    if (code != SQLITE_DONE) return Error(code);
    return jobs;
  }

  absl::Status Save(const proto::StoredJob& job) override {
    const uint32_t id = job.record().job_id();
    const uint32_t next = std::max(next_job_id_, id + 1);
    const std::string data = job.SerializeAsString();
    const std::string state = proto::JobState_Name(job.status().state());
    sqlite3_stmt* save = save_.get();
    sqlite3_bind_int64(save, 1, id);
    BindText(save, 2, job.status().name());
    BindText(save, 3, state);
    BindText(save, 4, job.status().reason());
    sqlite3_bind_blob64(save, 5, data.data(), data.size(), SQLITE_STATIC);
    if (next == next_job_id_) {
      const absl::Status saved = Step(save);
      if (saved.ok() && job.status().ended_ms() > 0) EmptyLog();
      return saved;
    }
    // The id counts as used exactly when the job exists.
    const std::string text = absl::StrCat(next);
    const absl::Status status = InTransaction([&] {
      BindText(save_next_.get(), 1, text);
      const absl::Status counted = Step(save_next_.get());
      return counted.ok() ? Step(save) : counted;
    });
    if (status.ok()) next_job_id_ = next;
    return status;
  }

  // Empties the log of writes once nobody reads it. It fills again.
  void EmptyLog() {
    sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                              nullptr);
  }

  absl::Status Remove(JobId job) override {
    sqlite3_bind_int64(remove_.get(), 1, job.value());
    return Step(remove_.get());
  }

  absl::StatusOr<std::vector<SeenRegistrations::Entry>> LoadSeen() override {
    absl::StatusOr<Statement> select =
        Compile("SELECT daemon_id, attempt FROM registrations ORDER BY rowid");
    if (!select.ok()) return select.status();
    std::vector<SeenRegistrations::Entry> seen;
    int code;
    while ((code = sqlite3_step(select->get())) == SQLITE_ROW) {
      seen.push_back({.daemon_id = static_cast<uint64_t>(sqlite3_column_int64(select->get(), 0)),
                      .attempt = static_cast<uint32_t>(sqlite3_column_int64(select->get(), 1))});
    }
    if (code != SQLITE_DONE) return Error(code);
    return seen;
  }

  absl::Status SaveSeen(const std::vector<SeenRegistrations::Entry>& seen) override {
    return InTransaction([&] {
      absl::Status status;
      for (const SeenRegistrations::Entry& entry : seen) {
        sqlite3_bind_int64(save_seen_.get(), 1, static_cast<int64_t>(entry.daemon_id));
        sqlite3_bind_int64(save_seen_.get(), 2, entry.attempt);
        if (status.ok()) status = Step(save_seen_.get());
      }
      sqlite3_bind_int64(forget_seen_.get(), 1, SeenRegistrations::kMax);
      return status.ok() ? Step(forget_seen_.get()) : status;
    });
  }

  absl::StatusOr<std::vector<std::string>> LoadDraining() override {
    absl::StatusOr<Statement> select = Compile("SELECT name FROM draining ORDER BY name");
    if (!select.ok()) return select.status();
    std::vector<std::string> daemons;
    int code;
    while ((code = sqlite3_step(select->get())) == SQLITE_ROW) {
      daemons.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(select->get(), 0)));
    }
    if (code != SQLITE_DONE) return Error(code);
    return daemons;
  }

  absl::Status SaveDraining(const std::vector<std::string>& daemons) override {
    return InTransaction([&] {
      absl::Status status = Run("DELETE FROM draining");
      for (const std::string& daemon : daemons) {
        BindText(save_draining_.get(), 1, daemon);
        if (status.ok()) status = Step(save_draining_.get());
      }
      return status;
    });
  }

 private:
  static void BindText(sqlite3_stmt* statement, int index, const std::string& text) {
    sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }

  absl::Status Error(int code) const {
    const std::string line = absl::StrCat(file_, ": ", sqlite3_errmsg(database_.get()));
    const int primary = code & 0xff;
    if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT) return absl::DataLossError(line);
    return absl::InternalError(line);
  }

  absl::Status Run(const char* sql) {
    const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
    return code == SQLITE_OK ? absl::OkStatus() : Error(code);
  }

  absl::Status InTransaction(const std::function<absl::Status()>& change) {
    absl::Status status = Run("BEGIN");
    if (!status.ok()) return status;
    status = change();
    if (status.ok()) status = Run("COMMIT");
    if (!status.ok()) Run("ROLLBACK").IgnoreError();
    return status;
  }

  absl::StatusOr<Statement> Compile(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr);
    if (code != SQLITE_OK) return Error(code);
    return Statement(statement);
  }

  // Runs a statement that returns no rows, and resets it.
  absl::Status Step(sqlite3_stmt* statement) {
    const int code = sqlite3_step(statement);
    const absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : Error(code);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
  }

  // The first column of the first row; empty without rows.
  absl::StatusOr<std::string> ReadText(const char* sql) {
    absl::StatusOr<Statement> statement = Compile(sql);
    if (!statement.ok()) return statement.status();
    const int code = sqlite3_step(statement->get());
    if (code == SQLITE_DONE) return std::string();
    if (code != SQLITE_ROW) return Error(code);
    const auto* text = sqlite3_column_text(statement->get(), 0);
    return text == nullptr ? std::string() : reinterpret_cast<const char*>(text);
  }

  void KeepLogAtClose(bool keep) {
    sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep ? 1 : 0, nullptr);
  }

  // Called before any change. Returns the schema version; 0: the database is empty.
  absl::StatusOr<int> CheckIsOwn() {
    const absl::StatusOr<std::string> text = ReadText("PRAGMA user_version");
    if (!text.ok()) return text.status();
    int version = -1;
    if (!absl::SimpleAtoi(*text, &version) || version > kSchemaVersion ||
        (version != 0 && version < kOldestSchemaVersion)) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s: its schema has version %s, this strata knows versions %d to %d",
                          file_, *text, kOldestSchemaVersion, kSchemaVersion));
    }
    if (version != 0) return version;
    const absl::StatusOr<std::string> table = ReadText("SELECT name FROM sqlite_master LIMIT 1");
    if (!table.ok()) return table.status();
    if (table->empty()) return 0;
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: has a table \"%s\" and is not the state of a coordinator; name another "
        "folder with --state",
        file_, *table));
  }

  // Upgrades tables of schema `version`, or none (0), to the current one.
  absl::Status Raise(int version) {
    if (version == kSchemaVersion) return absl::OkStatus();
    return InTransaction([&] {
      absl::Status status = version == 0 ? Run(kFirstTables) : absl::OkStatus();
      if (status.ok()) status = Run(kTablesSince1);
      if (!status.ok()) return status;
      return Run(absl::StrCat("PRAGMA user_version = ", kSchemaVersion).c_str());
    });
  }

  absl::Status ReadMeta() {
    const absl::Status filled =
        Run(absl::StrFormat("INSERT OR IGNORE INTO meta VALUES ('cluster_id', '%s');"
                            "INSERT OR IGNORE INTO meta VALUES ('next_job_id', '1');",
                            RandomName())
                .c_str());
    if (!filled.ok()) return filled;
    const auto id = ReadText("SELECT value FROM meta WHERE key = 'cluster_id'");
    if (!id.ok()) return id.status();
    const auto next = ReadText("SELECT value FROM meta WHERE key = 'next_job_id'");
    if (!next.ok()) return next.status();
    cluster_id_ = *id;
    if (!absl::SimpleAtoi(*next, &next_job_id_)) {
      return absl::DataLossError(absl::StrCat(file_, ": next_job_id is \"", *next, "\""));
    }
    return absl::OkStatus();
  }

  absl::Status PrepareStatements() {
    for (const auto& [sql, target] : {
             std::pair("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?)", &save_),
             std::pair("UPDATE meta SET value = ? WHERE key = 'next_job_id'", &save_next_),
             std::pair("DELETE FROM jobs WHERE id = ?", &remove_),
             std::pair("INSERT OR REPLACE INTO registrations VALUES (?, ?)", &save_seen_),
             std::pair("DELETE FROM registrations WHERE rowid <="
                       " (SELECT max(rowid) FROM registrations) - ?",
                       &forget_seen_),
             std::pair("INSERT INTO draining VALUES (?)", &save_draining_),
         }) {
      absl::StatusOr<Statement> statement = Compile(sql);
      if (!statement.ok()) return statement.status();
      *target = *std::move(statement);
    }
    return absl::OkStatus();
  }

  const std::string file_;
  const UniqueFd lock_;
  const Database database_;
  Statement save_;  // statements must end before their database
  Statement save_next_;
  Statement remove_;
  Statement save_seen_;
  Statement forget_seen_;
  Statement save_draining_;
  std::string cluster_id_;
  uint32_t next_job_id_ = 1;
};

// It holds daemons' credentials. SQLite gives new files beside it the same mode; existing ones may
// come from a coordinator that did not set it.
absl::Status MakeOwnFile(const std::string& file) {
  const UniqueFd fd(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid() || fchmod(fd.get(), 0600) != 0) return FileError(errno, file);
  for (const char* beside : {"-wal", "-shm"}) {
    if (chmod((file + beside).c_str(), 0600) != 0 && errno != ENOENT) {
      return FileError(errno, file + beside);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::string& directory) {
  absl::StatusOr<UniqueFd> lock = LockState(directory);
  if (!lock.ok()) return lock.status();
  const std::string file = absl::StrCat(directory, "/", kFile);
  if (absl::Status own = MakeOwnFile(file); !own.ok()) return own;
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database database(opened);
  if (code != SQLITE_OK) {
    return absl::InternalError(
        absl::StrCat(file, ": ", opened == nullptr ? "out of memory" : sqlite3_errmsg(opened)));
  }
  auto store = std::make_unique<SqliteJobStore>(file, *std::move(lock), std::move(database));
  const absl::Status prepared = store->Prepare();
  if (!prepared.ok()) return prepared;
  return store;
}

absl::StatusOr<UniqueFd> LockState(const std::string& directory) {
  if (absl::Status made = MakeOwnFolders(directory); !made.ok()) return made;
  const std::string file = directory + "/lock";
  UniqueFd lock(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return absl::InternalError(absl::StrCat(file, ": ", std::strerror(errno)));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(
        absl::StrCat(directory, ": another coordinator uses this state directory"));
  }
  return lock;
}

}  // namespace strata::server
