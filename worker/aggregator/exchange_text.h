#ifndef STRATA_WORKER_AGGREGATOR_EXCHANGE_TEXT_H_
#define STRATA_WORKER_AGGREGATOR_EXCHANGE_TEXT_H_

#include <string>

#include "proto/record.pb.h"
#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// "seeding", "training", "finishing"
const char* PhaseName(Exchange::Phase phase);

// Whom a node of the job exchanges with: "over 2 shards", "with 1 other node, RING, summed by
// NCCL".
std::string WithWhom(const proto::JobRecord& record);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_EXCHANGE_TEXT_H_
