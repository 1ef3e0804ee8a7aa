#!/usr/bin/env python3
"""schemata.py LIST.json TREE SKIP.json: puts every mutant of the list (but the skipped) into TREE's sources behind a switch."""
import json, sys, collections, os
L = json.load(open(sys.argv[1])); tree = sys.argv[2]
skip = set(map(int, json.load(open(sys.argv[3])))) if os.path.exists(sys.argv[3]) else set()
src_root = sys.argv[4]

def lex(text):
    """yields (pos, char) of code characters that are no part of strings, chars or comments"""
    i, n = 0, len(text)
    while i < n:
        c = text[i]
        if text.startswith('//', i):
            j = text.find('\n', i); i = n if j < 0 else j; continue
        if text.startswith('/*', i):
            i = text.index('*/', i) + 2; continue
        if c in 'rb' and (i == 0 or not (text[i-1].isalnum() or text[i-1] == '_')):
            j = i + (2 if text.startswith('br', i) else 1)
            if c == 'r' or text.startswith('br', i):
                k = j
                while k < n and text[k] == '#': k += 1
                if k < n and text[k] == '"':
                    end = '"' + '#' * (k - j)
                    i = text.index(end, k + 1) + len(end); continue
        if c == '"':
            i += 1
            while text[i] != '"': i += 2 if text[i] == '\\' else 1
            i += 1; continue
        if c == "'":
            if text[i+1] == '\\':
                i = text.index("'", i + 3) + 1; continue
            if text[i+2] == "'":
                i += 3; continue
            i += 1; continue
        yield i, c
        i += 1

by_file = collections.defaultdict(list)
for n, m in enumerate(L, 1):
    m['n'] = n
    by_file[m['file']].append(m)
spans = {}  # file -> list of (start offset, end offset, n) in generated text
odd = []
for f, ms in by_file.items():
    text = open(os.path.join(src_root, f)).read()
    lines = [0]
    for i, c in enumerate(text):
        if c == '\n': lines.append(i + 1)
    off = lambda p: lines[p['line'] - 1] + p['column'] - 1
    fns = collections.OrderedDict()
    for m in ms:
        if not m.get('function'): odd.append(m['n']); continue
        s = m['function']['span']
        fns.setdefault((off(s['start']), off(s['end'])), []).append(m)
    edits = []
    for (a, b), group in fns.items():
        for (a2, b2) in fns:
            assert (a2, b2) == (a, b) or b2 <= a or b <= a2 or True
        fn = text[a:b]
        depth = 0; body = None
        for p, c in lex(fn):
            if c in '([': depth += 1
            elif c in ')]': depth -= 1
            elif c == '{' and depth == 0: body = p; break
        assert body is not None and fn.rstrip().endswith('}'), (f, fn)
        bs, be = a + body + 1, a + len(fn.rstrip()) - 1
        sig = fn[:body]
        if '-> impl' in sig or 'const fn' in sig:
            for m in group: m['why'] = 'impl' if '-> impl' in sig else 'const'
        edits.append((bs, be, a, group))
    edits.sort()
    out = []; pos = 0; mine = []; outlen = 0
    def put(s):
        global outlen
        out.append(s); outlen += len(s)
    outlen = 0
    for bs, be, a, group in edits:
        if bs < pos:
            odd += [m['n'] for m in group]; continue
        live = [m for m in group if m['n'] not in skip]
        head = text[pos:bs]
        if not live: put(text[pos:be]); pos = be; continue
        k = head.rfind('const fn')
        if k >= 0 and pos + k >= a - 10 and '\n}' not in head[k:]: head = head[:k] + head[k+6:]
        put(head)
        ns = [m['n'] for m in group]
        put(' match crate::mutation::of(%d, %d) {' % (min(ns), max(ns)))
        for m in live:
            s, e = off(m['span']['start']), off(m['span']['end'])
            assert bs <= s <= e <= be, m['name']
            put('%d => {' % m['n'])
            b0 = outlen
            rep = m['replacement']
            put(text[bs:s] + rep + text[e:be])
            mine.append((b0, outlen, m['n']))
            put('}\n')
        put('_ => {' + text[bs:be] + '} }\n')
        pos = be
    put(text[pos:])
    gen = ''.join(out)
    open(os.path.join(tree, f), 'w').write(gen)
    # byte offsets for rustc
    spans[f] = [(len(gen[:x].encode()), len(gen[:y].encode()), n) for x, y, n in mine]
json.dump(spans, open('scratch/spans.json', 'w'))
print('mutants', len(L), 'skipped', len(skip), 'odd', odd)
