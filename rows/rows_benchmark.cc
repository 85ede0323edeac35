// Measures lookups and row-wise Adagrad updates of a table beside a plain gather of the same rows,
// in millions of rows a second on one thread, and a row's memory beside its payload. Values are
// compared first. usage: rows_benchmark [--mib N] [--dim N] [--batch N] [--rounds N]
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/random.h"
#include "rows/row_table.h"

namespace strata::rows {
namespace {

struct Options {
  uint64_t mib = 2048;  // of weights
  uint32_t dim = 16;
  uint64_t batch = 65536;  // rows of a call
  int rounds = 41;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double SecondsOf(const std::function<void()>& call) {
  const absl::Time begin = absl::Now();
  call();
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

// The weights of all rows, one after the other, in huge pages if the system has them: what a gather
// reads that needs no index.
class PlainRows {
 public:
  explicit PlainRows(size_t values)
      : bytes_((values * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage),
        values_(static_cast<float*>(std::aligned_alloc(kHugePage, bytes_))) {
    madvise(values_.get(), bytes_, MADV_HUGEPAGE);
  }
  float* data() { return values_.get(); }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  struct Free {
    void operator()(float* values) const { std::free(values); }
  };
  const size_t bytes_;
  const std::unique_ptr<float[], Free> values_;
};

class Lab {
 public:
  explicit Lab(const Options& options)
      : options_(options),
        rows_((options.mib << 20) / (options.dim * sizeof(float))),
        plain_(rows_ * options.dim),
        gathered_(options.batch * options.dim),
        looked_up_(options.batch * options.dim),
        gradients_(options.batch * options.dim, 0.001f) {
    TableSpec spec{.name = "items", .columns = options.dim, .capacity = rows_, .seed = 5};
    spec.optimizer.kind = RowOptimizerKind::kRowwiseAdagrad;
    table_ = RowTable::Create(spec, 0).value();
  }

  // Returns whether all rows were stored.
  bool Fill() {
    uint64_t stored = 0;
    for (uint64_t first = 0; first < rows_; first += options_.batch) {
      std::vector<uint64_t> ids(std::min(options_.batch, rows_ - first));
      std::iota(ids.begin(), ids.end(), first);
      stored += table_->Update(ids, gradients_.data(), {.lr = 0.1f}, 1).stored;
      table_->Lookup(ids, plain_.data() + first * options_.dim);
    }
    return stored == rows_;
  }

  // Distinct, ascending, as a step has them.
  std::vector<uint64_t> Draw() {
    std::vector<uint64_t> ids(std::min(options_.batch, rows_));
    for (uint64_t& id : ids) id = RandomBits(11, ++draws_) % rows_;
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  void Gather(const std::vector<uint64_t>& ids) {
    const size_t columns = options_.dim;
    for (size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(&gathered_[i * columns], plain_.data() + ids[i] * columns,
                  columns * sizeof(float));
    }
  }

  int Run() {
    if (!Fill()) {
      std::fputs("rows_benchmark: the table refused rows\n", stderr);
      return 1;
    }
    std::vector<double> gather, lookup, update, looked_up_share, updated_share;
    for (int round = 0; round < options_.rounds; ++round) {
      // Each has rows of its own, so that none finds them in the cache.
      const std::vector<uint64_t> ids = Draw(), others = Draw();
      Gather(ids);
      table_->Lookup(ids, looked_up_.data());
      const size_t bytes = ids.size() * options_.dim * sizeof(float);
      if (std::memcmp(gathered_.data(), looked_up_.data(), bytes) != 0) {
        std::fputs("rows_benchmark: a lookup has other values than the gather\n", stderr);
        return 1;
      }
      const std::vector<uint64_t> a = Draw(), b = Draw();
      const double per_row = 1e6 / 1e12;
      const double gather_s = SecondsOf([&] { Gather(a); }) / static_cast<double>(a.size());
      const double lookup_s =
          SecondsOf([&] { table_->Lookup(b, looked_up_.data()); }) / static_cast<double>(b.size());
      const double update_s =
          SecondsOf([&] { table_->Update(others, gradients_.data(), {.lr = 0.0f}, 2); }) /
          static_cast<double>(others.size());
      gather.push_back(per_row / gather_s);
      lookup.push_back(per_row / lookup_s);
      update.push_back(per_row / update_s);
      looked_up_share.push_back(gather_s / lookup_s);
      updated_share.push_back(gather_s / update_s);
    }
    const double payload = static_cast<double>(options_.dim + 1) * sizeof(float);
    const double memory =
        static_cast<double>(table_->memory_bytes()) / static_cast<double>(table_->size());
    absl::PrintF("%d rows of dim %d, %d rows a call\n", rows_, options_.dim, options_.batch);
    absl::PrintF("gather   %6.1f M rows/s\n", Median(gather));
    absl::PrintF("lookup   %6.1f M rows/s  %.2f x the gather\n", Median(lookup),
                 Median(looked_up_share));
    absl::PrintF("update   %6.1f M rows/s  %.2f x the gather\n", Median(update),
                 Median(updated_share));
    absl::PrintF("memory   %6.1f bytes a row  %.2f x its payload\n", memory, memory / payload);
    return 0;
  }

 private:
  const Options options_;
  const uint64_t rows_;
  PlainRows plain_;
  std::vector<float> gathered_, looked_up_, gradients_;
  std::unique_ptr<RowTable> table_;
  uint64_t draws_ = 0;
};

}  // namespace
}  // namespace strata::rows

int main(int argc, char** argv) {
  CLI::App app("How fast rows are looked up and updated, beside a plain gather.");
  strata::rows::Options options;
  app.add_option("--mib", options.mib, "MiB of weights in the table")->check(CLI::Range(1, 65536));
  app.add_option("--dim", options.dim, "weights in a row")->check(CLI::Range(1, 4096));
  app.add_option("--batch", options.batch, "rows in a call")->check(CLI::Range(1, 1 << 24));
  app.add_option("--rounds", options.rounds, "measured calls")->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, argc, argv);
  return strata::rows::Lab(options).Run();
}
