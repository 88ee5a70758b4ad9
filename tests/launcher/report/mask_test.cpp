#include "launcher/report/mask.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"

using toporun::join;
using toporun::launcher::is_secret_name;
using toporun::launcher::masked_command;
using toporun::launcher::recordable_variable;
using Words = std::vector<std::string>;

TEST_CASE("secrets in command lines are masked in every place they are written") {
    struct Row {
        std::string name;
        Words words;
        Words masked;
    };
    const std::vector<Row> rows = {
        {"option with equals sign", {"--password=x y"}, {"--password=***"}},
        {"option with a word", {"--hub-token", "abc", "next"}, {"--hub-token", "***", "next"}},
        {"one dash", {"-token", "abc"}, {"-token", "***"}},
        {"flag before an option", {"--use-auth-token", "--fp16"}, {"--use-auth-token", "--fp16"}},
        {"camel case", {"--apiKey", "abc"}, {"--apiKey", "***"}},
        {"environment word", {"env", "HF_TOKEN=abc", "A=b"}, {"env", "HF_TOKEN=***", "A=b"}},
        {"mpirun -x", {"-x", "WANDB_API_KEY=abc"}, {"-x", "WANDB_API_KEY=***"}},
        {"docker -e in one word", {"-eHF_TOKEN=abc"}, {"-eHF_TOKEN=***"}},
        {"srun list",
         {"--export=ALL,HF_TOKEN=abc,OMP_NUM_THREADS=3"},
         {"--export=ALL,HF_TOKEN=***,OMP_NUM_THREADS=3"}},
        {"docker --env", {"--env=DB_PASSWORD=abc"}, {"--env=DB_PASSWORD=***"}},
        {"hydra word", {"+logger.api_key=abc"}, {"+logger.api_key=***"}},
        {"shell string",
         {"bash", "-c", "cd x && HF_TOKEN=abc python t.py --secret s --lr 1"},
         {"bash", "-c", "cd x && HF_TOKEN=*** python t.py --secret *** --lr 1"}},
        {"a value that may reach to the end of its word", {"A_TOKEN=b c d"}, {"A_TOKEN=***"}},
        {"quoted value", {"x PASSWORD='a, b' y"}, {"x PASSWORD=*** y"}},
        {"quotes in quotes",
         {"sh -c \"sh -c '--token abc'\" x"},
         {"sh -c \"sh -c '--token ***'\" x"}},
        {"an apostrophe is no quote",
         {"echo don't; x '--token abc' y"},
         {"echo don't; x '--token *** y"}},
        {"option in a quoted value", {"--x='a --token b'"}, {"--x='a --token ***"}},
        {"user of a URL",
         {"https://me:pw@host.example/x", "tcp://node:29500"},
         {"https://***@host.example/x", "tcp://node:29500"}},
        {"two URLs", {"a://u@h,b://v:w@i"}, {"a://***@h,b://***@i"}},
        {"parameter of a URL", {"https://h/x?token=abc&b=2"}, {"https://h/x?token=***&b=2"}},
        {"known tokens", {"hf_abcdefghijklmnop"}, {"***"}},
        {"random word", {"x", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"}, {"x", "***"}},
        {"random part of a path",
         {"/data/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b/x"},
         {"/data/***/x"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(join(masked_command(row.words), "|") == join(row.masked, "|"));
    }
}

TEST_CASE("ordinary command lines stay as they are") {
    const std::vector<Words> commands = {
        {"torchrun", "--nproc-per-node=8", "--rdzv-endpoint=node-a:29500", "train.py"},
        {"python", "train.py", "--tokenizer-path", "/data/tok", "--max_tokens=2048"},
        {"--num-tokens", "1000", "--keyframes=3", "--key-size", "128"},
        {"mpirun", "-np", "16", "--map-by", "ppr:8:node:PE=7", "-x", "LD_LIBRARY_PATH=/a:/b"},
        {"run-2024-llama-13b-pretrain-final-v2", "/scratch/checkpoints/step_00012000"},
        {"nvidia_h100_80gb_hbm3", "internationalization", "1234567890123456789012345"},
        {"srun", "--cpus-per-task=14", "--exclusive", ""},
        {"--opt", "adam_beta1=0.9", "a=b=c", "="},
    };
    for (const Words& command : commands) {
        CHECK(join(masked_command(command), "|") == join(command, "|"));
    }
}

TEST_CASE("names of secrets are told from names that only sound alike") {
    for (const char* name :
         {"HF_TOKEN", "--token", "api-key", "wandb.apiKey", "MYSQL_PWD", "SECRET",
          "aws_secret_access_key", "SSH_PASSPHRASE", "authToken", "--key"}) {
        CAPTURE(name);
        CHECK(is_secret_name(name));
    }
    for (const char* name : {"tokenizer", "max_tokens", "key_size", "keyboard", "monkey", "", "--",
                             "NCCL_DEBUG", "author", "compass"}) {
        CAPTURE(name);
        CHECK_FALSE(is_secret_name(name));
    }
}

TEST_CASE("only variables of the field are recorded and no secrets among them") {
    for (const char* name : {"NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RANK",
                             "SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK", "MASTER_ADDR"}) {
        CAPTURE(name);
        CHECK(recordable_variable(name));
    }
    for (const char* name : {"HOME", "PATH", "SLURM_JWT", "NCCL_SECRET", "AWS_ACCESS_KEY_ID", "",
                             "MY_NCCL_DEBUG", "RANKED"}) {
        CAPTURE(name);
        CHECK_FALSE(recordable_variable(name));
    }
}

TEST_CASE("masking keeps the number of words whatever they hold") {
    std::string bytes;
    for (unsigned i = 0; i < 4096; ++i) bytes += static_cast<char>((i * 2654435761u) >> 24);
    const Words words = {bytes,  "--token", bytes, "=",           "://",
                         "://@", "a=",      "'",   "--password=", "\n"};
    CHECK(masked_command(words).size() == words.size());
    CHECK(masked_command({}).empty());
}
