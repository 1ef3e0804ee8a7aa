import json,collections
L=json.load(open('scratch/list.json'));skip=json.load(open('scratch/skip.json'))
A=json.load(open('scratch/res_lib.json'));B=json.load(open('scratch/res_it.json'))
odd={177,178,179,180,181,182,183,184,185,186,793,794,856,857,1075,1167,1168,1928,1929,1930,1931}
spans=json.load(open('scratch/spans.json'));built={n for v in spans.values() for _,_,n in v}
rooms=[('quorum, verdict, fencing, retry, token, value',['src/quorum','src/verdict','src/fencing','src/retry','src/token','src/value']),('lease',['src/lease']),('contend',['src/contend']),('renewal',['src/renewal']),('node',['src/node']),('fake',['src/fake'])]
import sys
rows=[]
for name,ps in rooms:
    c=collections.Counter()
    for n,m in enumerate(L,1):
        if not any(m['file'].startswith(p) for p in ps) or 'reply_path' in m['file'] or 'frame.rs' in m['file']: continue
        c['gen']+=1
        if str(n) in skip: c['unviable']+=1;continue
        if n not in built or n in odd: c['const']+=1;continue
        a=A.get(str(n),{}).get('result');b=B.get(str(n),{}).get('result')
        if a is None: c['notrun']+=1
        elif a in('caught','timeout'): c['lib-'+a]+=1
        elif b is None: c['it-notrun']+=1
        elif b in('caught','timeout'): c['it-'+b]+=1
        else: c['alive']+=1
    print(name,dict(c))
