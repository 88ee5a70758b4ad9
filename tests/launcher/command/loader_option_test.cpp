#include "launcher/command/loader_option.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"

using namespace toporun;
using namespace toporun::launcher;

namespace {

Command command(const std::string& line, const std::string& launcher = "plain",
                std::vector<std::size_t> program_at = {0}) {
    Command made;
    made.argv = split(line, ' ');
    made.job.launcher = launcher;
    made.program_at = std::move(program_at);
    return made;
}

}  // namespace

TEST_CASE("the number of loader workers is found in the words of frameworks") {
    struct Row {
        std::string line;
        int workers;  // -1: none is found
        std::string words;
    };
    const std::vector<Row> rows = {
        {"python train.py --num_workers 8", 8, "--num_workers 8"},
        {"python train.py --num-workers=8 --lr 1", 8, "--num-workers=8"},
        {"python train.py --dataloader_num_workers 0", 0, "--dataloader_num_workers 0"},
        {"python train.py --dataloader-num-workers 4", 4, "--dataloader-num-workers 4"},
        {"python train.py fit --data.num_workers=6", 6, "--data.num_workers=6"},
        {"python train.py fit --data.init_args.num_workers 6", 6, "--data.init_args.num_workers 6"},
        {"python train.py -j 4 -b 256", 4, "-j 4"},
        {"python train.py -j4", 4, "-j4"},
        {"python train.py --workers 4", 4, "--workers 4"},
        {"python main.py data.num_workers=3", 3, "data.num_workers=3"},
        {"python main.py ++num_workers=3 x=1", 3, "++num_workers=3"},
        {"python train.py --cfg-options train_dataloader.num_workers=5", 5,
         "train_dataloader.num_workers=5"},
        {"python train_net.py DATALOADER.NUM_WORKERS 7 SEED 1", 7, "DATALOADER.NUM_WORKERS 7"},
        {"yolo train workers=8", 8, "workers=8"},
        {"./train --num-workers 2", 2, "--num-workers 2"},
        {"python train.py --num_workers 8 --num_workers 9", 9, "--num_workers 9"},
        // Something else, or no number.
        {"python train.py --preprocessing_num_workers 8", -1, ""},
        {"python train.py --val_dataloader.num_workers 8", -1, ""},
        {"python train.py eval.num_workers=8", -1, ""},
        {"python train.py --num_workers", -1, ""},
        {"python train.py --num_workers auto", -1, ""},
        {"python train.py --num_workers -1", -1, ""},
        {"python train.py --num_workers=8x", -1, ""},
        {"python train.py --num_workers 99999999999", -1, ""},
        {"python train.py -jobs 4", -1, ""},
        {"python train.py num_workers 8", -1, ""},
        {"python train.py --=8 = --", -1, ""},
        {"./train -j 8 --workers 8", -1, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.line);
        const auto found = loader_numbers(command(row.line));
        CHECK(found.empty() == (row.workers < 0));
        if (found.empty()) continue;
        CHECK(found.back().workers == row.workers);
        CHECK(found.back().words == row.words);
    }
}

TEST_CASE("the launcher's own options are not the program's") {
    CHECK(loader_numbers(command("torchrun --num-workers 3 train.py", "torchrun", {3})).empty());
    CHECK(loader_numbers(command("torchrun train.py -j 3", "torchrun", {1})).size() == 1);
    CHECK(loader_numbers(command("srun x --num-workers 3", "srun", {})).size() == 1);
}

TEST_CASE("only the number is replaced") {
    const auto set = [](const std::string& line, int workers) {
        const Command made = command(line);
        return join(set_loader_numbers(made, loader_numbers(made), workers), " ");
    };
    CHECK(set("python t.py --num_workers 2 --x 2", 13) == "python t.py --num_workers 13 --x 2");
    CHECK(set("python t.py --num-workers=2 num_workers=2", 13) ==
          "python t.py --num-workers=13 num_workers=13");
    CHECK(set("python t.py -j2 -j 3", 13) == "python t.py -j13 -j 13");
    CHECK(set("python t.py --lr 2", 13) == "python t.py --lr 2");
}

TEST_CASE("the placeholder is filled in wherever it is toporun's own") {
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"{workers}", "7"},
        {"--num-workers={workers}", "--num-workers=7"},
        {"{workers}{workers} a{workers}b", "77 a7b"},
        {"python t.py --j {workers} \xff\n'\"", "python t.py --j 7 \xff\n'\""},
        {"${workers}", "${workers}"},
        {"{{workers}}", "{{workers}}"},
        {"{{workers}} {workers}", "{{workers}} 7"},
        {"{worker} {workers {WORKERS} { workers }", "{worker} {workers {WORKERS} { workers }"},
        {"", ""},
    };
    for (const auto& [before, after] : rows) {
        CAPTURE(before);
        CHECK(fill_in_workers({before, "x"}, 7) == std::vector<std::string>{after, "x"});
        CHECK(has_workers_placeholder({"x", before}) == (before != after));
    }
    CHECK(fill_in_workers({"{workers}"}, 0) == std::vector<std::string>{"0"});
}

TEST_CASE("known frameworks are seen by their options") {
    const auto seen = [](const std::string& line) {
        const auto advice = loader_advice(command(line));
        return advice ? advice->framework + ": " + advice->add : std::string();
    };
    CHECK(seen("python t.py --per_device_train_batch_size 4") ==
          "Hugging Face Trainer: --dataloader_num_workers {workers}");
    CHECK(seen("python t.py --per_device_train_batch_size=4 --x").starts_with("Hugging"));
    // The examples without the Trainer have the one option and not the other.
    CHECK(seen("accelerate launch run_clm_no_trainer.py --per_device_train_batch_size 4").empty());
    CHECK(seen("python a/run_glue_no_trainer.py --per_device_train_batch_size=4").empty());
    CHECK(seen("python run_glue.py --per_device_train_batch_size 4 no_trainer").starts_with("Hug"));
    CHECK(seen("python pretrain_gpt.py --micro-batch-size 4") ==
          "Megatron-LM: --num-workers {workers}");
    CHECK(seen("/opt/bin/fairseq-train data").starts_with("fairseq"));
    CHECK(seen("python t.py --per_device_train_batch_sizes 4").empty());
    CHECK(seen("python t.py").empty());
}
