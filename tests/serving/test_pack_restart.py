"""In float32 to the token: a pack from disk, the pack in memory and no pack at all write the same.

One in bytes, which is near what it was made of and no more, is the same in memory and from disk.
"""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
import torch

from readahead_serving.engine.kv.pack_bytes import as_bytes
from readahead_serving.engine.kv.pack_files import map_pack, write_pack
from readahead_serving.engine.kv.pack_manifest import BLOCKS, BYTES_LAYOUT, PackIdentity, PackRefused, verify
from readahead_serving.packs.estimate import PackSize
from tests.serving.decoding import decode_greedily
from tests.serving.tiny_engine import CONFIG, TinyEngine, random_decoder

TOKENS = 64
IDENTITY = PackIdentity(model="tiny", tokenizer="none", template="none", rope="plain", dtype="float32")
IN_BYTES = msgspec.structs.replace(IDENTITY, layout=BYTES_LAYOUT)


def text(seed: int, tokens: int) -> list[int]:
    return random.Random(seed).choices(range(CONFIG.vocab_size), k=tokens)


def test_a_pack_read_back_by_another_engine_changes_no_token(tmp_path: Path) -> None:
    decoder = random_decoder()
    context = text(1, 700)
    prompts = [context + text(seed, 11 + seed) for seed in range(2, 6)]
    before = TinyEngine(decoder)
    built = before.build("p", context)
    before.core.attach_pack("p", "", built)
    write_pack(tmp_path / "p", built, IDENTITY, ())
    after = TinyEngine(decoder)
    mapped = map_pack(tmp_path / "p")
    after.core.attach_pack("p", "", mapped)
    pairs = zip([*mapped.keys, *mapped.values], [*built.keys, *built.values], strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    for engine in (before, after):
        names = [engine.add(prompt, max_tokens=TOKENS) for prompt in prompts]
        engine.run()
        for name, prompt in zip(names, prompts, strict=True):
            assert engine.tokens[name] == decode_greedily(decoder, prompt, TOKENS)
            assert engine.cached[name] == len(context)
    own = sum(len(prompt) - len(context) for prompt in prompts) + len(prompts) * (TOKENS - 1)
    assert after.executor.computed == own, "the second engine computes the questions and nothing of the pack"


def test_bytes_are_near_the_numbers_they_were_made_of() -> None:
    built = TinyEngine(random_decoder()).build("p", text(1, 700))
    kv = as_bytes(built)
    for layer in range(CONFIG.num_layers):
        keys, values = kv.beginning(layer, 700, torch.float32)
        padded = torch.nn.functional.pad(built.keys[layer], (0, 0, 0, 4)).view(
            CONFIG.num_kv_heads, 11, 64, CONFIG.head_dim
        )
        step = padded.abs().amax(2, keepdim=True).expand_as(padded).flatten(1, 2)[:, :700] / 127
        assert ((keys - built.keys[layer]).abs() <= step / 2 + 1e-6).all(), "of a channel's largest in 64 tokens"
        step = built.values[layer].abs().amax(2, keepdim=True) / 127
        assert ((values - built.values[layer]).abs() <= step / 2 + 1e-6).all(), "of a token's largest"


def test_a_pack_in_bytes_writes_the_same_in_memory_and_from_disk_and_takes_what_is_said(tmp_path: Path) -> None:
    decoder, context = random_decoder(), text(1, 700)
    before, after = TinyEngine(decoder), TinyEngine(decoder)
    kv = as_bytes(before.build("p", context))
    manifest = write_pack(tmp_path / "p", kv, IN_BYTES, ())
    mapped = map_pack(tmp_path / "p")
    assert all(torch.equal(one, other) for one, other in zip(mapped.tensors(), kv.tensors(), strict=True))
    size = PackSize.of(CONFIG, IN_BYTES)
    assert size.nbytes(700) == manifest.kv_bytes == kv.nbytes
    assert size.num_blocks == len(manifest.blocks)
    before.core.attach_pack("p", "", kv)
    after.core.attach_pack("p", "", mapped)
    prompt = context + text(2, 13)
    assert before.complete(prompt, max_tokens=TOKENS) == after.complete(prompt, max_tokens=TOKENS)
    assert after.executor.computed == 13 + TOKENS - 1


def test_a_pack_that_extends_one_in_bytes_has_the_same_bytes_at_its_beginning() -> None:
    engine, context = TinyEngine(random_decoder()), text(1, 640)
    base = as_bytes(engine.build("p", context))
    engine.core.attach_pack("p", "", base)
    longer = as_bytes(engine.build("q", context + text(2, 100)))
    for layer in range(CONFIG.num_layers):
        assert torch.equal(longer.keys[layer][:, :640], base.keys[layer])
        assert torch.equal(longer.values[layer][:, :640], base.values[layer])


@pytest.mark.parametrize(("block", "name"), list(enumerate(["keys", "key scales", "values", "value scales"], 4)))
def test_a_flipped_byte_of_a_pack_in_bytes_is_refused_by_its_part(tmp_path: Path, block: int, name: str) -> None:
    kv = as_bytes(TinyEngine(random_decoder()).build("p", text(1, 70)))
    manifest = write_pack(tmp_path / "p", kv, IN_BYTES, ())
    assert verify(tmp_path / "p", IN_BYTES) == manifest
    with (tmp_path / "p" / BLOCKS).open("r+b") as file:
        file.seek(manifest.blocks[block].offset + 3)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(PackRefused, match=f"the {name} of layer 1 are not what was written"):
        verify(tmp_path / "p", IN_BYTES)
