import json,sys
L=json.load(open('scratch/list.json'))
R=json.load(open(sys.argv[1]))
pre=sys.argv[3:] or ['src/']
for n in sorted(R,key=int):
    r=R[n]; m=L[int(n)-1]
    if r['result'] in sys.argv[2].split(',') and any(m['file'].startswith(p) for p in pre): print(n,m['name'],'' if r['result']!='timeout' else r['by'],r['result'] if ',' in sys.argv[2] else '')
