import json,sys,collections,os
spans=json.load(open('scratch/spans.json'))
L=json.load(open('scratch/list.json'))
skip=json.load(open('scratch/skip.json')) if os.path.exists('scratch/skip.json') else {}
new=0;lost=[]
def allspans(m):
    for s in sorted(m['spans'],key=lambda s:not s['is_primary']):
        while s:
            yield s
            s=(s.get('expansion') or {}).get('span')
for l in open('scratch/check.json'):
    d=json.loads(l)
    if d.get('reason')!='compiler-message' or d['message']['level']!='error': continue
    m=d['message']; hit=None
    for s in allspans(m):
        for a,b,n in spans.get(s['file_name'],[]):
            if a<=s['byte_start'] and s['byte_end']<=b: hit=n;break
        if hit:break
    if hit:
        if str(hit) not in skip:
            new+=1; skip[str(hit)]=((m['code'] or {}).get('code') or '')+' '+m['message'][:100]
    elif 'aborting' not in m['message'] : lost.append(m['rendered'])
json.dump(skip,open('scratch/skip.json','w'))
print('new',new,'total',len(skip),'lost',len(lost))
for r in lost[:12]:print(r)
