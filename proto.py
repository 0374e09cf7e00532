import sys, time, numpy as np
sys.path.insert(0,"/work/t-scale")
from milearn.datasets import make_bags
from milearn._solvers.svm.group_newton import *
from milearn._solvers.svm import group_newton as gn
n=int(sys.argv[1]); d=int(sys.argv[2]); C=float(sys.argv[3])
X,y=make_bags(n,d,bag_size=(10,30),flip_y=.05,random_state=0)
y=np.asarray(y); print(X.shape,X.n_instances)
off=X.offsets; I=X.instances
s=np.where(y==1,1.,-1.)
# slack bag convex step with mean start, all rows in memory: just test master
pos=np.flatnonzero(s>0); neg=np.flatnonzero(s<0)
from sklearn.svm import LinearSVC
t=time.process_time(); m=LinearSVC().fit(I,np.repeat(y,X.sizes)); tl=time.process_time()-t; print("LinearSVC",tl)
w=m.coef_[0]; b=m.intercept_[0]
sc=I@w+b
from milearn._bags.segments import segment_argmax
wit=segment_argmax(sc,off)
rowsneg=np.concatenate([np.arange(off[i],off[i+1]) for i in neg])
rows=np.r_[wit[pos],rowsneg]
for slack in ("bag","instance"):
    Z=np.where(np.r_[np.ones(len(pos)),-np.ones(len(rowsneg))]>0,-1.,1.)[:,None]*I[rows]
    E=np.where(np.r_[np.ones(len(pos)),-np.ones(len(rowsneg))]>0,-1.,1.)[:,None]
    if slack=="bag": offs=np.r_[np.arange(len(pos)),len(pos)+np.r_[0,np.cumsum(X.sizes[neg])]]
    else: offs=np.arange(len(rows)+1)
    P=GroupProblem(Z,E,np.ones(len(rows)),offs,np.full(len(offs)-1,C),np.zeros(d),np.zeros(1))
    t=time.process_time(); sol=solve_groups(P,(w,np.array([b])),gap_tol=1e-3)
    print(slack,"master",time.process_time()-t,"ratio",(time.process_time()-t)/tl,sol.objective,sol.lower_bound,(sol.objective-sol.lower_bound)/sol.objective,sol.n_steps,sol.smoothing)
