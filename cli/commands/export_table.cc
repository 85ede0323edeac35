#include "cli/commands/export_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "cli/commands/checkpoint_objects.h"
#include "common/image/rows_image.h"
#include "common/image/safetensors.h"
#include "common/os/atomic_file.h"
#include "rows/row_table.h"

namespace strata::cli {
namespace {

// A file that is written at any place, and takes its name once it is whole.
class PlacedFile {
 public:
  explicit PlacedFile(std::string path)
      : path_(std::move(path)),
        hidden_(absl::StrFormat("%s.tmp.%d.%016x", path_, getpid(), std::random_device{}())) {}
  ~PlacedFile() {
    if (fd_.valid()) unlink(hidden_.c_str());
  }
  PlacedFile(const PlacedFile&) = delete;
  PlacedFile& operator=(const PlacedFile&) = delete;

  absl::Status Open() {
    absl::StatusOr<UniqueFd> fd = OpenRegularFileToWrite(hidden_, O_CREAT | O_EXCL);
    if (!fd.ok()) return fd.status();
    fd_ = *std::move(fd);
    return absl::OkStatus();
  }
  absl::Status Write(uint64_t at, absl::Span<const char> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return FileError(written < 0 ? errno : EIO, path_);
      at += static_cast<uint64_t>(written);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (fsync(fd_.get()) != 0) return FileError(errno, path_);
    if (rename(hidden_.c_str(), path_.c_str()) != 0) return FileError(errno, path_);
    fd_ = UniqueFd();
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    return SyncFolder(folder.empty() ? "." : folder);
  }

 private:
  const std::string path_, hidden_;
  UniqueFd fd_;
};

template <typename Value>
absl::Span<const char> BytesOfAll(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

// The file of a table's rows.
class TableFile {
 public:
  TableFile(const std::string& path, uint64_t rows, const rows::TableSpec& spec, bool optimizer)
      : file_(path) {
    layout_.metadata = {{"format", "pt"}, {"table", spec.name}};
    AddTensor("ids", "I64", {rows}, sizeof(int64_t));
    AddTensor("weights", "F32", {rows, spec.columns}, sizeof(float));
    if (!optimizer) return;
    const uint32_t state = rows::StateColumns(spec.optimizer.kind, spec.columns);
    AddTensor("state", "F32", {rows, state}, sizeof(float));
    AddTensor("clocks", "I32", {rows}, sizeof(int32_t));
  }

  uint64_t bytes() const { return layout_.tensors.back().end; }
  size_t tensors() const { return layout_.tensors.size(); }

  absl::Status Begin(const Manifest& manifest) {
    layout_.metadata["job"] = manifest.job_name;
    layout_.metadata["step"] = absl::StrCat(manifest.clock);
    const std::string head = SafetensorsHead(layout_);
    for (const TensorPlace& tensor : layout_.tensors) next_.push_back(head.size() + tensor.begin);
    absl::Status open = file_.Open();
    return open.ok() ? file_.Write(0, head) : open;
  }
  absl::Status Add(const TableRows& rows) {
    const absl::Span<const char> parts[] = {BytesOfAll(rows.ids), BytesOfAll(rows.weights),
                                            BytesOfAll(rows.state), BytesOfAll(rows.clocks)};
    for (size_t i = 0; i < next_.size(); ++i) {
      if (absl::Status status = file_.Write(next_[i], parts[i]); !status.ok()) return status;
      next_[i] += parts[i].size();
    }
    return absl::OkStatus();
  }
  absl::Status Finish() { return file_.Finish(); }

 private:
  void AddTensor(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape,
                 uint64_t bytes) {
    for (const uint64_t size : shape) bytes *= size;
    const uint64_t begin = layout_.tensors.empty() ? 0 : layout_.tensors.back().end;
    layout_.tensors.push_back({.name = name,
                               .shape = std::move(shape),
                               .begin = begin,
                               .end = begin + bytes,
                               .dtype = dtype});
  }

  PlacedFile file_;
  SafetensorsLayout layout_;
  std::vector<uint64_t> next_;  // by tensor: where its next values go
};

absl::StatusOr<uint32_t> FindTable(const std::vector<rows::TableSpec>& tables,
                                   const std::string& name) {
  constexpr size_t kNamed = 8;
  std::vector<std::string> names;
  for (uint32_t table = 0; table < tables.size(); ++table) {
    if (tables[table].name == name) return table;
    if (names.size() < kNamed) names.push_back(tables[table].name);
  }
  if (tables.size() > kNamed) names.push_back("...");
  return absl::InvalidArgumentError(absl::StrFormat(
      "--table: \"%s\": the job has %s", name,
      tables.empty() ? "no tables" : absl::StrCat("tables ", absl::StrJoin(names, ", "))));
}

}  // namespace

absl::StatusOr<Exported> ExportTable(Store& store, const Manifest& manifest,
                                     const proto::JobRecord& record, const ExportOptions& options) {
  const absl::StatusOr<std::vector<rows::TableSpec>> tables = rows::TablesOf(record.layout());
  if (!tables.ok()) return absl::DataLossError(tables.status().message());
  const absl::StatusOr<uint32_t> table = FindTable(*tables, options.table);
  if (!table.ok()) return table.status();
  ObjectTaker taker;
  taker.on_object = [&](const ObjectFacts& object, uint64_t bytes_before) {
    if (options.on_object) options.on_object(manifest, object, bytes_before);
  };
  uint64_t count = 0;
  taker.on_rows = [&](const RowsImage& image) {
    for (const TableRows& rows : image.tables) count += rows.table == *table ? rows.ids.size() : 0;
    return absl::OkStatus();
  };
  absl::Status status = ReadObjects(store, manifest, record, taker);
  if (!status.ok()) return status;
  TableFile file(options.out, count, (*tables)[*table], options.optimizer);
  status = file.Begin(manifest);
  // Once more, now that it is known where the columns begin.
  taker.on_rows = [&](const RowsImage& image) {
    for (const TableRows& rows : image.tables) {
      if (rows.table != *table) continue;
      if (absl::Status added = file.Add(rows); !added.ok()) return added;
    }
    return absl::OkStatus();
  };
  if (status.ok()) status = ReadObjects(store, manifest, record, taker);
  if (status.ok()) status = file.Finish();
  if (!status.ok()) return status;
  Exported exported = {.manifest = manifest, .tensors = file.tensors(), .bytes = file.bytes()};
  exported.notes.push_back(
      absl::StrFormat("table %s: %d rows; others have their initial values", options.table, count));
  return exported;
}

}  // namespace strata::cli
