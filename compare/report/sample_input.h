#ifndef STRATA_COMPARE_REPORT_SAMPLE_INPUT_H_
#define STRATA_COMPARE_REPORT_SAMPLE_INPUT_H_

#include "compare/report/report.h"

namespace strata::compare {

// For tests: a synthetic comparison of eight modes with three seeds. Sync is the baseline, ring
// equal to it, lazy and DiLoCo faster, async faster and worse; async_dc fails with one seed, and
// the last mode, whose name is hostile to HTML, with all. The title is hostile, too.
ReportInput SampleInput();

// Parts of it: sync with one seed only; the mode that fails with all seeds, and another like it;
// and all modes twice, the second time under long names.
ReportInput OneRunInput();
ReportInput AllFailedInput();
ReportInput ManyModesInput();
// Two modes with two seeds each; the second's final accuracy differs much between seeds.
ReportInput TwoSeedsInput();
// The same while its third seed still runs.
ReportInput UnderWayInput();

inline constexpr char kHostileName[] = "</script><b>\"'&amp;<!--";

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_SAMPLE_INPUT_H_
