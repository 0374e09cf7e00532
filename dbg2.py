import sys, numpy as np
sys.path.insert(0,"/work/t-scale")
from milearn.datasets import make_bags
from milearn._solvers.svm import mi_svm_primal as mp, group_newton as gn
from milearn._solvers.common.options import SolverOptions
from milearn._solvers.common.passes import ArraySource
X,y=make_bags(1000,100,bag_size=(10,30),flip_y=.05,random_state=0)
s=np.where(np.asarray(y)==1,1.,-1.)
old=gn._newton
def tr(problem,w,v,u,costs,h,prec):
    r=old(problem,w,v,u,costs,h,prec)
    w,v,u,a,st=r; g=w+problem.q+problem.Z.T@(costs*a); gv=problem.p+problem.E.T@(costs*a)
    print("     newton h %.1e steps %d |g|2/2 %.2e gv %.2e |w|2 %.2e"%(h,st,.5*g@g,abs(gv).sum(),w@w)); return r
gn._newton=tr
oldp=mp._passed
def tp(*a):
    r=oldp(*a); print("pass: neg loss %.4f W %s"%(r.negative_loss,r.rows.shape)); return r
mp._passed=tp
mp._MAX_PASSES=3
r=mp.solve_mi_svm_primal(ArraySource(X.instances,X.offsets),s,np.full(len(s),1.),sys.argv[1],sys.argv[2],SolverOptions(1e-6,100),1e-3)
